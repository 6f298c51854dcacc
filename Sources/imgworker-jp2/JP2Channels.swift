import CImageCodecs
import IPCProtocol

/// The source of each channel of a pixel: a component, and the eight bits for each of its values.
struct JP2Channels: Equatable {
    struct Source: Equatable {
        let component: Int
        /// Added to a sample, so that the lowest one is 0.
        let offset: Int
        let values: [UInt8]
    }

    /// Three colours, or four inks.
    private(set) var colors: [Source] = []
    private(set) var alpha: Source?
    private(set) var isPremultiplied = false
    private(set) var space: JP2Container.Space

    /// Assigns the components of a codestream as the boxes of its file say. Without them, one or two channels are gray,
    /// three or more are RGB, and a channel that follows the colours is alpha. Throws `decode-failed`,
    /// `unsupported-format`.
    init(_ container: JP2Container, _ components: [JP2Codestream.Component]) throws(WireError) {
        let channels = container.channels ?? components.indices.map { JP2Container.Channel(component: $0, column: nil) }
        space = container.space
        // Writers also call one channel sRGB.
        if space == .unknown || (space == .rgb && channels.count < 3) { space = channels.count < 3 ? .gray : .rgb }
        let count = [.gray: 1, .cmyk: 4][space] ?? 3
        guard channels.count >= count else {
            throw JP2Codestream.error(CODEC_DAMAGED, "it has \(channels.count) channels instead of \(count)")
        }
        let definitions = container.definitions ?? []
        for color in 0..<count {
            let place = definitions.first { $0.kind == 0 && $0.association == color + 1 }?.channel ?? color
            colors.append(try Self.source(of: place, channels, container.palette, components, inverts: space == .cmyk))
        }
        if count == 1 { colors += [colors[0], colors[0]] }
        if space == .cmyk { return }
        let opacity = definitions.first { ($0.kind == 1 || $0.kind == 2) && $0.association == 0 }
        isPremultiplied = opacity?.kind == 2
        if let place = opacity?.channel ?? (definitions.isEmpty && channels.count == count + 1 ? count : nil) {
            alpha = try Self.source(of: place, channels, container.palette, components, inverts: false)
        }
    }

    private static func source(
        of place: Int, _ channels: [JP2Container.Channel], _ palette: JP2Container.Palette?,
        _ components: [JP2Codestream.Component], inverts: Bool
    ) throws(WireError) -> Source {
        guard place < channels.count, channels[place].component < components.count,
            channels[place].column ?? 0 < palette?.depths.count ?? 1
        else { throw JP2Codestream.error(CODEC_DAMAGED, "a channel has no component") }
        let channel = channels[place]
        let component = components[channel.component]
        guard component.depth <= 16 else {
            throw JP2Codestream.error(CODEC_UNSUPPORTED, "it has \(component.depth) bits a sample; 16 are supported")
        }
        let offset = component.isSigned ? 1 << (component.depth - 1) : 0
        var (levels, depth) = (Array(0..<1 << component.depth), component.depth)
        if let column = channel.column, let palette {
            depth = palette.depths[column]
            let middle = palette.isSigned[column] ? 1 << (depth - 1) : 0
            levels = palette.column(column).map { ($0 ^ middle) & (1 << depth - 1) }
        }
        let most = 1 << depth - 1
        let values = levels.map { level in
            let value = UInt8((level * 255 + most / 2) / most)
            return inverts ? 255 - value : value
        }
        return Source(component: channel.component, offset: offset, values: values)
    }
}
