extension TestBroker {
    /// The number of descriptors that it has open, without the two of its fork server and of each process that
    /// receives descriptors, and the memory of workers for results: these may be missing at first, and start later.
    private var ownDescriptors: Int {
        status.descriptors - 2 * (descriptorHelpers.count + (forkServer == nil ? 0 : 1))
            - status.openFiles.count { $0.contains("memfd:imgbroker-results") }
    }

    /// Waits until no process starts or ends and no descriptor is opened or closed, and returns the number of
    /// descriptors that it has open then.
    func settledDescriptors() throws -> Int {
        try allChildren()
        var (count, repetitions) = (0, 0)
        try eventually("the number of open descriptors is stable") {
            let now = ownDescriptors
            (count, repetitions) = (now, now == count ? repetitions + 1 : 0)
            return repetitions == 10
        }
        return count
    }

    /// The descriptors of images and of results that workers make.
    private var bufferDescriptors: Int {
        let names = ["original", "pixels", "segment", "shared", "disk"].map { "memfd:imgbroker-\($0)" }
        return status.openFiles.count { file in names.contains { file.contains($0) } }
    }

    /// The number of settled descriptors without those of images.
    func settledDescriptorsBesidesImages() throws -> Int { try settledDescriptors() - bufferDescriptors }

    /// Waits until it has `count` descriptors open besides those of images, of which at most `images` have one: small
    /// originals have none. No client may lease one. Then removes the images from memory, and waits until none of their
    /// descriptors is left.
    func waitForSettledDescriptors(_ count: Int, images: Int) throws {
        try eventually("\(count) descriptors besides at most \(images) images") {
            let own = bufferDescriptors
            return own <= images && ownDescriptors - own == count
        }
        let client = try RawClient(socketPath)
        _ = try client.ask("clear", #""tier":"memory""#)
        client.close()
        try waitForSettledDescriptors(count)
    }

    /// Waits until it has `count` descriptors open, as `settledDescriptors` counts them.
    func waitForSettledDescriptors(_ count: Int) throws {
        do {
            try eventually("\(count) open descriptors") { ownDescriptors == count }
        } catch {
            throw TestFailure("\(error): there are \(ownDescriptors), \(status.openFiles)")
        }
    }
}

extension ProcessStatus {
    /// The number that the next descriptor gets, so that a limit of this many lets it open no more.
    var lowestFreeDescriptor: Int {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd")) ?? []
        let used = Set(names.compactMap { Int($0) })
        return (0...).first { !used.contains($0) }!
    }
}
