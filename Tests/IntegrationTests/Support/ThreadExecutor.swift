import Dispatch
import Synchronization

/// Runs the jobs of tasks one after another on one thread of its own, which never ends.
final class ThreadExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])
    private let count = DispatchSemaphore(value: 0)

    init() throws {
        try DetachedThread.start(name: "tasks") { [self] in
            while true {
                count.wait()
                unsafe jobs.withLock { $0.removeFirst() }.runSynchronously(on: asUnownedTaskExecutor())
            }
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        count.signal()
    }
}
