import Foundation
import Testing

/// Runs each test of a suite on a thread of its own.
///
/// These tests wait for processes by blocking calls. The pool that runs tests has as many threads as there are
/// processors, so that a test that blocks would keep another from running.
struct BlockingTrait: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() }
    }

    /// Starts a thread for each job.
    private final class ThreadExecutor: TaskExecutor {
        static let shared = ThreadExecutor()

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            let executor = unsafe asUnownedTaskExecutor()
            Thread.detachNewThread { unsafe job.runSynchronously(on: executor) }
        }
    }
}

extension Trait where Self == BlockingTrait {
    /// Runs each test of a suite on a thread of its own, because it blocks.
    static var blocking: Self { Self() }
}
