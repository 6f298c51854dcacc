import IPCProtocol
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// Jobs reserve their bytes before they start.
@Suite(.blocking, .timeLimit(.minutes(10))) struct AdmissionTests {
    /// Eight images of nearly 200 MB each, and memory for one.
    @Test func largePicturesQueue() throws {
        let limit = 300 << 20
        let files = (0..<8).map { TestPNG.blank(width: 7000 + 8 * $0, height: 7000) }
        let setting = try Setting(["--memory-limit", "300M"], workers: 4) { request in
            Int(request.path.dropFirst()).map { .ok(files[$0]) } ?? .status(404)
        }
        try setting.idle()
        let client = try setting.client()
        let ids = try (0..<8).map {
            try client.get(setting.url("/\($0)"), #""delivery":"none","totalTimeoutMs":110000"#)
        }
        var (mostReserved, mostMemory, mostResident) = (0, 0, 0)
        try eventually("all are answered", within: 100) {
            let report = try setting.broker.stats()
            mostReserved = max(mostReserved, report[.reservedBytes])
            mostMemory = max(mostMemory, report[.memoryBytes] + report[.reservedBytes])
            let resident = setting.broker.workers(.decode).reduce(0) { $0 + $1.residentBytes }
            mostResident = max(mostResident, resident)
            return report.ended == 8
        }
        for (number, id) in ids.enumerated() {
            #expect(try client.answer(to: id).image().width == 7000 + 8 * number)
        }
        // At least one reservation was observed, and never two at once.
        #expect(mostReserved >= 196_000_000)
        #expect(mostReserved <= limit)
        #expect(mostMemory <= limit)
        // The output, and 64 MiB for each of the five workers.
        #expect(mostResident <= limit + 5 * 64 << 20)
        #expect(try setting.idle()[.reservedBytes, .workerRestarts, .failed] == [0, 0, 0])
    }

    /// An image larger than the whole budget is decoded, too, with no other job beside it.
    @Test func largerThanAllMemory() throws {
        let sides = [2000, 2008, 2016, 2024]
        let files = sides.map { TestPNG.blank(width: $0, height: 2000) }
        let (setting, client) = try Setting(["--memory-limit", "8M"], workers: 3) { request in
            Int(request.path.dropFirst()).map { .ok(files[$0]) } ?? .status(404)
        }.withClient()
        let ids = try sides.indices.map { try client.get(setting.url("/\($0)"), #""delivery":"none""#) }
        var mostReserved = 0
        try eventually("all are answered") {
            let report = try setting.broker.stats()
            mostReserved = max(mostReserved, report[.reservedBytes])
            return report.ended == sides.count
        }
        for (side, id) in zip(sides, ids) { #expect(try client.answer(to: id).image().width == side) }
        #expect(mostReserved < 2 * 16_000_000)
        #expect(try setting.idle()[.reservedBytes] == 0)
    }
}
