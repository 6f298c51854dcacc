import IPCProtocol
import WorkerProtocol

/// An image whose header and metadata are read, and whose pixels are not.
struct DescribedImage {
    let plan: DecodePlan
    let blocks: [UInt8]

    /// Reads the header of `source`. Of the formats, only JPEG can be described by a part of the file: its metadata
    /// precede the pixels.
    init(_ source: ImageSource, for job: DecodeJob, _ codecs: [ImageCodec]) throws(WireError) {
        let opened = try EncodedImage.open(source, for: job, codecs)
        guard !source.isPart || opened.codec?.format == .jpeg else {
            throw WireError(.unsupportedFormat, "The header of such a file is not complete before its end.")
        }
        let metadata = opened.decoder.metadata
        let shown = metadata.orientation.turned(opened.decoder.header.geometry)
        var header = ImageHeader(
            format: opened.codec?.format ?? .pixels, geometry: shown,
            frameCount: opened.decoder.frameCount)
        let description = ImageDescription(source, opened)
        header.facts = description.facts
        blocks = description.bytes(of: job.transform.metadata)
        plan = DecodePlan(
            header: header, result: shown, workingBytes: EncodedImage.baseBytes + source.ownBytes + blocks.count)
        guard plan.workingBytes <= job.maxWorkingBytes else {
            throw WireError(.tooLarge, "The file has \(source.ownBytes) bytes; \(job.maxWorkingBytes) are allowed.")
        }
    }
}
