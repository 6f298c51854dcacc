import DiskRecords
import Glibc
import HTTPValues
import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import Testing
import WorkerProtocol

import struct TestSupport.SeededRandom

@testable import imgcache

/// Calls fail, or are the last ones of the process, while it stores small entries and large ones.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SmallFaultTests {
    private static let samples = CurrentProcess.environment("FAULT_SAMPLES").flatMap { Int($0) } ?? 4
    private static let originals = (0..<8).map { TestOriginal($0, size: $0 % 4 == 3 ? 80_000 : 2000 + 500 * $0) }
    /// Other bytes for the same keys, in the other storage.
    private static let replacements = [0, 3].map { number in
        var other = TestOriginal(number, size: number == 0 ? 70_000 : 900, content: 100 + number)
        (other.record.key, other.record.url) = (originals[number].record.key, originals[number].record.url)
        return other
    }
    private static var rasters: [TestRaster] { (originals + replacements).map { $0.raster() } }
    private static let possible = Possible(originals + replacements, rasters: rasters)

    private func start(_ directory: String, _ environment: [String] = []) throws -> CacheProcess {
        try CacheProcess(
            directory, diskLimit: 300_000, rasterLimit: 20_000, retryInterval: 50, smallEntry: 1 << 16,
            environment: environment)
    }

    private func work(_ cache: CacheProcess) throws -> [String: TestOriginal] {
        var kept: [String: TestOriginal] = [:]
        func keep(_ original: TestOriginal) throws {
            if try cache.keep(original) { kept[original.record.key] = original }
        }
        for original in Self.originals { try keep(original) }
        for raster in Self.rasters.prefix(5) { _ = try cache.keep(raster) }
        try Self.possible.findAll(in: cache)
        var confirmed = Self.originals[1].record
        confirmed.response.etag = "another"
        try cache.send(.update(confirmed))
        for original in Self.replacements { try keep(original) }
        try cache.send(.touch(keys: Self.possible.keys))
        _ = try cache.forget(Self.originals[2].record.url, owner: nil)
        _ = try cache.clear(olderThanSeconds: 3600)
        try Self.possible.findAll(in: cache)
        return kept
    }

    /// Everything found is right, before and after another start, and entries can be stored.
    private func expectRight(_ directory: String) throws {
        var counts: [Int] = []
        for _ in 0...1 {
            let cache = try start(directory)
            try cache.waitForState(.on)
            try cache.waitForKnown()
            counts.append(try Self.possible.findAll(in: cache))
            try cache.close()
        }
        #expect(counts[0] == counts[1])
        let cache = try start(directory)
        #expect(try cache.keep(Self.originals[1]))
        #expect(try cache.has(Self.originals[1]))
        try cache.close()
        #expect(files(below: directory).filter { $0.contains(".tmp") } == [])
    }

    @Test(arguments: FaultTests.Fault.allCases) func failingCalls(_ fault: FaultTests.Fault) throws {
        let counting = try TemporaryDirectory()
        let counter = try Faults(counting.path + "/cache")
        counter.plan(.error(EIO), from: .max)
        let counted = try start(counting.path + "/cache", counter.environment)
        _ = try work(counted)
        try counted.close()
        let count = counter.calls
        #expect(count > 100)
        var random = SeededRandom(state: 5)
        let stride = max(1, count / Self.samples)
        for first in Swift.stride(from: 1, through: count, by: stride) {
            let call = first + Int.random(in: 0..<stride, using: &random)
            let temporary = try TemporaryDirectory()
            let directory = temporary.path + "/cache"
            let faults = try Faults(directory)
            faults.plan(fault.kind, from: call, to: fault.isForGood ? .max : call)
            do {
                let cache = try start(directory, faults.environment)
                _ = try work(cache)
                _ = try cache.finish()
            } catch is CacheProcess.Ended {}
            try expectRight(directory)
        }
    }

    /// What was reported as kept survives a kill at any moment.
    @Test func keptEntriesSurviveKills() throws {
        var random = SeededRandom(state: 9)
        for _ in 0..<(4 + Self.samples) {
            let temporary = try TemporaryDirectory()
            let directory = temporary.path + "/cache"
            let faults = try Faults(directory)
            let first = try CacheProcess(directory, smallEntry: 1 << 16, environment: faults.environment)
            faults.plan(Bool.random(using: &random) ? .kill : .tear, from: Int.random(in: 1...60, using: &random))
            var kept: [TestOriginal] = []
            do {
                for number in 0..<60 {
                    let original = TestOriginal(number, size: 100 + number * 200)
                    if try first.keep(original) { kept.append(original) }
                }
                first.kill()
            } catch is CacheProcess.Ended {}
            let second = try CacheProcess(directory, smallEntry: 1 << 16)
            for original in kept { #expect(try second.has(original)) }
            try second.close()
        }
    }

    /// A disk that fails loses no small entry.
    @Test(arguments: [ENOSPC, EIO, EROFS]) func failedWritesLoseNothing(_ error: Int32) throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.path + "/cache"
        let faults = try Faults(directory)
        var cache = try start(directory, faults.environment)
        let (first, second) = (TestOriginal(1, size: 3000), TestOriginal(2, size: 3000))
        #expect(try cache.keep(first))
        var failed = 0
        /// Uses the process; nil when that exits meanwhile: a directory whose status cannot be read is left to the next.
        func attempt<Value>(_ body: (CacheProcess) throws -> Value) throws -> Value? {
            do {
                return try body(cache)
            } catch is CacheProcess.Ended {
                failed += faults.failed
                faults.stop()
                cache = try cache.successor()
                return nil
            }
        }
        faults.plan(.error(error), from: 1)
        // Nothing is stored, and what is found is right.
        if let isKept = try attempt({ try $0.keep(second) }) { #expect(!isKept) }
        _ = try attempt { try $0.has(first) }
        #expect(failed + faults.failed > 0)
        faults.stop()
        try eventually { try attempt { try $0.keep(second) } == true }
        // The process that failed may exit only now.
        var found: Bool?
        while found == nil { found = try attempt { try $0.has(first) && $0.has(second) } }
        #expect(found == true)
        try cache.close()
    }
}
