package import Glibc

/// A value behind a lock. The lock is that of the C library, because the thread sanitizer does not know the one of
/// `Mutex`, and would report each access.
@safe
package final class Locked<Value>: @unchecked Sendable {
    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    /// Overlapping accesses are not checked at run time, because the lock prevents them.
    @usableFromInline @exclusivity(unchecked) var value: Value

    /// Creates a lock that guards `value`, which nothing else may refer to.
    package init(_ value: sending Value) {
        unsafe self.value = value
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Calls `body` with the value while no other thread can access it. `body` must not call this again.
    @inlinable package func withLock<Result, Failure>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return unsafe try body(&value)
    }
}
