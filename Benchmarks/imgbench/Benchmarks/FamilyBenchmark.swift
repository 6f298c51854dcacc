import BrokerHarness
import CReference
import Foundation
import ImageBrokerClient
import LocalOrigin

/// The cost of each family of codecs that is installed: of its first image, of an idle process, and of its file.
enum FamilyBenchmark {
    private struct Family {
        let name: String
        let format: String
        /// The most mebibytes of an idle process, and of the file without debugging information.
        let (memory, file): (Double, Double)
        /// A small image.
        let image: [UInt8]
    }

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let folder = URL(filePath: run.broker).deletingLastPathComponent().path()
        return try families.flatMap { family -> [Row] in
            let program = folder + "imgworker-" + family.name
            guard FileManager.default.isExecutableFile(atPath: program) else { return [] }
            return try processes(run, family) + [file(family, program)]
        }
    }

    /// The first image, each with a broker of its own, in turns with the library alone.
    private static func processes(_ run: BenchmarkRun, _ family: Family) throws -> [Row] {
        let path = temporaryPath(family.name)
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(family.image).write(to: URL(filePath: path))
        let origin = try LocalOrigin { _ in .ok(family.image) }
        defer { origin.stop() }
        var (times, memory) = (Pairs(), Sample())
        for _ in 0..<run.scaled(15, 2) {
            let alone = cref_run(ownProgram("ownstart"), family.name, path)
            guard alone > 0 else { throw Failure("the library of \(family.format) does not decode the image") }
            let broker = try BrokerProcess(run.broker)
            defer { broker.stop() }
            let client = try broker.client()
            _ = try broker.idleWorkers("imgworker", 3, client)
            times.add(try timed { try client.get(origin.url("/a")) }.milliseconds, against: Double(alone) / 1e6)
            let process = try broker.idleWorkers("imgworker-" + family.name, 1, client)
            memory.add(mebibytes(ProcessTree(process).residentMemory(of: "imgworker-" + family.name).max() ?? 0))
        }
        let name = family.format
        return [
            Row(
                "footprint.first-\(family.name)", "first image of a cold family, without the library's own: \(name)",
                times.differences, allowed: 60, unit: "ms",
                note: "\(rounded(times.ours.median)) ms; the library alone \(rounded(times.theirs.median)) ms"),
            Row(
                "footprint.idle-\(family.name)", "resident memory of an idle worker of \(name)", memory,
                allowed: family.memory, unit: "MiB"),
        ]
    }

    private static func file(_ family: Family, _ program: String) throws -> Row {
        let copy = temporaryPath("program")
        defer { try? FileManager.default.removeItem(atPath: copy) }
        try FileManager.default.copyItem(atPath: program, toPath: copy)
        guard cref_run("/usr/bin/strip", copy, nil) > 0 else { throw Failure("strip fails") }
        let size = try FileManager.default.attributesOfItem(atPath: copy)[.size] as? Int ?? 0
        return Row(
            "footprint.file-\(family.name)", "file of the worker of \(family.format), stripped",
            Sample(values: [mebibytes(size)]), allowed: family.file, unit: "MiB", note: "without its libraries")
    }

    private static let families = [
        Family(name: "avif", format: "AVIF", memory: 24, file: 3, image: decoded(avif)),
        Family(name: "heif", format: "HEIC", memory: 24, file: 3, image: decoded(heic)),
        Family(name: "jp2", format: "JPEG 2000", memory: 24, file: 3, image: decoded(jp2)),
        Family(name: "jxl", format: "JPEG XL", memory: 24, file: 3, image: decoded(jxl)),
        Family(name: "svg", format: "SVG", memory: 48, file: 3, image: Array(svg.utf8)),
        Family(name: "tiff", format: "TIFF", memory: 24, file: 3, image: tiff),
    ]

    private static func decoded(_ text: String) -> [UInt8] { [UInt8](Data(base64Encoded: text) ?? Data()) }

    /// A drawing with text, for which fonts are found.
    private static let svg = """
        <svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><circle cx="32" cy="32" r="30" fill="teal"/>\
        <text x="8" y="40" font-family="sans-serif" font-size="20">Text</text></svg>
        """

    /// 64 × 64 gray pixels without compression.
    private static let tiff: [UInt8] = {
        let tags: [(UInt8, UInt16)] = [
            // Width, height, bits, no compression, photometric interpretation, offset, rows, bytes.
            (0, 64), (1, 64), (2, 8), (3, 1), (6, 1), (17, 8), (22, 64), (23, 4096),
        ]
        var file: [UInt8] = [0x49, 0x49, 42, 0, 8, 16, 0, 0] + (0..<4096).map { UInt8(truncatingIfNeeded: $0) }
        file += [UInt8(tags.count), 0]
        for (tag, value) in tags {
            file += [tag, 1, 3, 0, 1, 0, 0, 0, UInt8(truncatingIfNeeded: value), UInt8(value >> 8), 0, 0]
        }
        return file + [0, 0, 0, 0]
    }()

    private static let avif = """
        AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAA\
        AAAAAAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAcgAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEA\
        AGF2MDFDb2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwA\
        AAAAE2NvbHJuY2x4AAEADQAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAAem1kYXQSAAoJGBV//aICGg0IMmMax4eF4cwwwwKF\
        AQDPyMlWVx8t4jojB60HW0VxtVvnVy7/n3UDFg17t27bnAB8CkMGIfeRwHt5G7QNtPHYyRhFcX/wKvWD/9SXeM/7l+Tx+SVWjie4\
        QEEqeFMpLsb1Oif34TA=
        """
    private static let heic = """
        AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAVZtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA\
        ACJpbG9jAAAAAERAAAEAAQAAAAABegABAAAAAAAAAE8AAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRt\
        AAAAAAABAAAA1mlwcnAAAAC3aXBjbwAAAHhodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMA\
        AAMAHroCQGEAAQArQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbqSSmubgIaDAgAAAMAyAAAAwAIQGIAAQAHRAHBcrAiQAAAABNjb2xy\
        bmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAABBwaXhpAAAAAAMICAgAAAAXaXBtYQAAAAAAAAABAAEEgQIDBAAAAFdt\
        ZGF0AAAASygBrxmA934xFYLoZQL+hpjs2jneC9+qBnnCS0Fb04XZwYFtpHIYDF3RZvSQZfuRSUFcvCgsEO6fZeo9sOCiqB/52WxJ\
        dddunrwX4A==
        """
    private static let jp2 = """
        AAAADGpQICANCocKAAAAFGZ0eXBqcDIgAAAAAGpwMiAAAAAtanAyaAAAABZpaGRyAAAAQAAAAEAAAwcHAAAAAAAPY29scgEAAAAAABAA\
        AAIkanAyY/9P/1EALwAAAAAAQAAAAEAAAAAAAAAAAAAAAEAAAABAAAAAAAAAAAAAAwcBAQcBAQcBAf9SAAwAAAABAQUEBAAA/1wAI0J3\
        IHbwdvB2wG8AbwBu4GdQZ1BnaFAFUAVQR1fTV9NXYv9kACUAAUNyZWF0ZWQgYnkgT3BlbkpQRUcgdmVyc2lvbiAyLjUuMP+QAAoAAAAA\
        AY0AAf+Tx94MB6UGGCadw+sFDYYikafD6QgLspkLwPjCQfQFgDgwDPEaKgs1mkmSCWgywPlCQPiCQPmCAA0lfokK9qkrBmxIV8Hxg4Pl\
        CQBhgA+rowwx55ADuhfAdGgfANAOGCIfCGDY5AN/XQU9mxWHcxM/n8Hyi4PlFwPDgBYB95p6gmlMVscfFgATzGedjxSw/GIVh3MTPwQY\
        wPiDwPgFACDmcFk1mfQBWnQjs6A4gCTAc/Eao+slwfEZg+I1A8iAJNK27qfOrKdDuMsdJHPNNPu1rGLZh5xnwiTAfaiJsK6U2VKC7dih\
        Ks75qBV/0XFXYQL9JNi5FdMNhKts6QdKUAR3x3fAcLAJgDVyyUqMHtLEFG7ggMfCnHwqw6QAgv4PP33wSD6uztKp3x9XXurs/YL976jB\
        7mopNQrWNylfkaId8q44p4L/MgG20E3EgIDDy0PLgMgxp/rvJbWJYAzewUqkCPuKXbMfHqXIMK1xYhBOy2+OOQ3Pbnp2WI+OlR9d9ID/\
        2Q==
        """
    private static let jxl = """
        /wpPQEJxIQATiAYAQAPTQQkAgAqVUcYNXs71fPmhw2LaxnWGttq2AAAAAB5AvxLGZnthkDAFChSNiqqwADAcoxHjOca6bSldDBbX\
        JKLWxKFTcXqhFpK7+J+H/If2z/z4x+rDx/LUmnwPiO4GumsWtkOSEiDj7K8G+dIOsOB4pDjOh/WprbIPE05N0Im0wA+eaHAOXwZo\
        plvqJugEt9nIYrn53sIHBIeBHIIuVXbAwgg2FF4HBAcYRChigLxRTRbAFxVS4FY2Kl5kjDEeaOALwEYgYlfXGZgsuzJ8DAgA
        """
}
