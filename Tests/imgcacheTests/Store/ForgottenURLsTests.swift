@testable import imgcache

struct ForgottenURLsTests {
    @Test func ordersUntilTheReconciliationEnds() {
        var forgotten = ForgottenURLs()
        let url = "https://example.org/a"
        func entry(owner: UInt32?, created: Int) -> EntryTrailer {
            EntryTrailer(.original(TestOriginal(1, url: url, owner: owner).record), created: created)
        }
        forgotten.insert(url: url, owner: 5, at: 100, hasFailed: false)
        #expect(forgotten.contains(entry(owner: 5, created: 100)))
        #expect(forgotten.contains(entry(owner: nil, created: 90)))
        #expect(!forgotten.contains(entry(owner: 6, created: 90)))
        #expect(!forgotten.contains(entry(owner: 5, created: forgotten.timeAfter(100))))
        forgotten.insert(url: url, owner: 6, at: 100, hasFailed: true)
        forgotten.removeCompleted()
        #expect(!forgotten.contains(entry(owner: 5, created: 90)))
        #expect(forgotten.contains(entry(owner: 6, created: 90)))
        #expect(forgotten.takeFailed().map(\.owner) == [6])
        #expect(!forgotten.contains(entry(owner: 6, created: 90)))
        forgotten.insert(url: url, owner: nil, at: 100, hasFailed: false)
        #expect(forgotten.contains(entry(owner: 7, created: 100)))
        #expect(!forgotten.contains(entry(owner: 7, created: 101)))
    }
}
