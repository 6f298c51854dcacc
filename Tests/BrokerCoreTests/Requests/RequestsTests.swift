import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// `Requests` in isolation.
struct RequestsTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let client = ClientID(number: 1)

    private func waiter(
        _ requests: inout Requests, _ change: (inout GetOptions) -> Void = { _ in }
    ) throws -> Waiter {
        var options = GetOptions()
        change(&options)
        let get = GetRequest(id: 1, url: try SourceURL("http://origin.test/a"), options: options)
        let waiter = requests.makeWaiter(.get, get, key: OriginalKey(get, uid: 1), of: client, uid: 1, at: now)
        requests.register(waiter)
        return waiter
    }

    @Test func `a request is taken out once`() throws {
        var requests = Requests()
        let waiter = try waiter(&requests)
        #expect(requests.gets == 1 && requests[waiter.id] != nil)
        #expect(requests.unregister(waiter.id) == true)
        #expect(!requests.unregister(waiter.id) && requests.isEmpty)
    }

    @Test func `a waiter that joins a job is coalesced, until the job ends without a result`() throws {
        var requests = Requests()
        let id = try waiter(&requests).id
        requests.wait(id, for: .lookingUp(JobID(number: 1)), joining: true)
        #expect(requests[id]?.isCoalesced == true)
        requests.lookupEnded(id, again: false)
        requests.decideAnew(id)
        #expect(requests[id]?.isCoalesced == false && requests[id]?.hasQueriedDisk == true)
        #expect(requests[id]?.stage == .deciding)
    }

    @Test func `a rejected original is never trusted again`() throws {
        var requests = Requests()
        let id = try waiter(&requests).id
        requests.serveOriginal(id, as: .confirmed, isInMemory: true)
        #expect(requests[id]?.trust == .confirmed)
        requests.rejectOriginal(of: id)
        requests.lostOriginal(id)
        #expect(requests[id]?.trust == .rejected && requests[id]?.isForced == true)
    }

    @Test func `a confirmed original that was lost is unchecked`() throws {
        var requests = Requests()
        let id = try waiter(&requests).id
        requests.serveOriginal(id, as: .staleAllowed, isInMemory: false)
        #expect(requests[id]?.trust == .staleAllowed && requests[id]?.hasQueriedDisk == false)
        requests.lostOriginal(id)
        #expect(requests[id]?.trust == .unchecked)
    }

    @Test func `a preview that ends is not shown again`() throws {
        var requests = Requests()
        let id = try waiter(&requests).id
        requests.beginPreview(id)
        requests.decideAnew(id)
        #expect(requests[id]?.preview == .pending)
        requests.beginPreview(id)
        requests.endPreview(id)
        requests.decideAnew(id)
        #expect(requests[id]?.preview == .done)
    }

    @Test func `the first progress frame says that nothing was received`() throws {
        var requests = Requests()
        let id = try waiter(&requests) { $0.progress = true }.id
        let first = requests.progress(10, of: 100, for: id)
        #expect(first == [.progress(id: 1, received: 0, expected: 100), .progress(id: 1, received: 10, expected: 100)])
        #expect(requests.progress(20, of: 100, for: id) == [.progress(id: 1, received: 20, expected: 100)])
        let silent = try waiter(&requests).id
        #expect(requests.progress(10, of: 100, for: silent).isEmpty)
    }

    @Test func `a prefetch loads a bounded number of URLs concurrently`() throws {
        var requests = Requests()
        let urls = try (0..<5).map { try SourceURL("http://origin.test/\($0)") }
        let id = requests.begin(Prefetch(PrefetchRequest(id: 7, urls: urls), of: client, uid: 1))
        var running: [WaiterID] = []
        while let waiter = requests.beginNext(of: id, atMost: 2, at: now) { running.append(waiter.id) }
        #expect(running.count == 2)
        _ = requests.unregister(running[0])
        #expect(requests.ended(running[0], of: id, hasFailed: true)?.failed == 1)
        #expect(requests.ended(running[0], of: id, hasFailed: true) == nil)
        #expect(requests.beginNext(of: id, atMost: 2, at: now) != nil)
        #expect(requests.beginAdvancing(id) && !requests.beginAdvancing(id))
    }
}
