/// What the command line asks for.
struct Options {
    enum Mode {
        case demonstration(images: String?, output: String, processes: Int)
        case client(socket: String, list: String)
        case help
    }

    static let usage = """
        Usage: imgdemo [--images DIR] [--output DIR] [--processes N]

        Starts a broker, an HTTP origin with the pictures of DIR (default: some drawn by itself) and N client
        processes (default: 6) that all ask for every picture in three sizes at once; then starts the broker
        again on the same cache directory and lets N new processes ask for the same. Shows what it took, and
        writes a contact sheet.
        """

    let mode: Mode

    init(_ words: some Sequence<String>) throws {
        var (images, output, processes, socket, list): (String?, String, Int, String?, String?)
        (images, output, processes, socket, list) = (nil, "demo-output", 6, nil, nil)
        var rest = words.makeIterator()
        while let flag = rest.next() {
            if flag == "--help" || flag == "-h" {
                mode = .help
                return
            }
            guard let value = rest.next() else { throw DemoFailure("\(flag) needs a value") }
            switch flag {
            case "--images": images = value
            case "--output": output = value
            case "--processes":
                guard let number = Int(value), (1...64).contains(number) else {
                    throw DemoFailure("--processes needs a number from 1 to 64")
                }
                processes = number
            case "--client-of": socket = value
            case "--list": list = value
            default: throw DemoFailure("unknown option \(flag)")
            }
        }
        if let socket, let list {
            mode = .client(socket: socket, list: list)
        } else {
            mode = .demonstration(images: images, output: output, processes: processes)
        }
    }
}

/// Why the demonstration cannot go on.
struct DemoFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
