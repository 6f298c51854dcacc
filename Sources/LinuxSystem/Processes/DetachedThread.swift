internal import CLinux

/// Threads of libraries, which nothing joins.
package enum DetachedThread {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts a thread that runs `body`. Signals to the process are delivered to other threads, so that its handlers
    /// and blocking calls work as without this one. `name` is at most 15 bytes.
    package static func start(name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
        let context = unsafe Unmanaged.passRetained(Body(body))
        let code = unsafe clinux_start_thread(
            name,
            { context in
                if let context = unsafe context {
                    unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
                }
                return nil
            }, context.toOpaque())
        guard code == 0 else {
            unsafe context.release()
            throw SystemError("pthread_create", code: code)
        }
    }
}
