/// Runs each test of a suite on a thread of its own.
///
/// These tests wait for processes by blocking calls. The pool that runs tests has as many threads as there are
/// processors, so that a test that blocks would keep another from running.
struct BlockingTrait: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        await Places.shared.take()
        let result: Result<Void, any Error>
        do {
            result = .success(try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() })
        } catch {
            result = .failure(error)
        }
        await Places.shared.release()
        try result.get()
    }

    /// The places for concurrent tests: more than processors, because most tests wait most of the time.
    private actor Places {
        static let shared = Places()

        private var free = 3 * ProcessInfo.processInfo.activeProcessorCount
        private var waiters: [CheckedContinuation<Void, Never>] = []

        func take() async {
            if free > 0 {
                free -= 1
            } else {
                await withCheckedContinuation { waiters.append($0) }
            }
        }

        func release() {
            if waiters.isEmpty {
                free += 1
            } else {
                waiters.removeFirst().resume()
            }
        }
    }
}

/// Starts a thread for each job.
final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = unsafe asUnownedTaskExecutor()
        Thread.detachNewThread { unsafe job.runSynchronously(on: executor) }
    }
}

extension Trait where Self == BlockingTrait {
    /// Runs each test of a suite on a thread of its own, because it blocks.
    static var blocking: Self { Self() }
}
