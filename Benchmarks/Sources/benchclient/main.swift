import Glibc
import HTTPValues
import IPCProtocol
import ImageBrokerClient

// benchclient SOCKET URL COUNT SIDE: requests the images URL/0 … URL/COUNT-1 within SIDE × SIDE pixels from a broker, reads
// a byte of every page, keeps all images, prints "done" and waits for the end of its input.

let words = CommandLine.arguments
guard words.count == 5, let count = Int(words[3]), let side = Int(words[4]) else {
    print("usage: benchclient SOCKET URL COUNT SIDE")
    exit(2)
}
/// The number of requests in flight, as in a scrolling list.
let ahead = 16
var options = GetOptions()
options.variant.width = side
options.variant.height = side
let client = try ImageBroker(path: words[1])
var images: [BrokerImage] = []
var (asked, sum) = (0, 0)
while images.count < count {
    while asked < min(count, images.count + ahead) {
        _ = try client.send(get: try SourceURL("\(words[2])/\(asked)"), options)
        asked += 1
    }
    switch try client.receive() {
    case .image(_, let image):
        image.withBytes { bytes in
            for offset in stride(from: 0, to: bytes.byteCount, by: 4096) {
                sum &+= Int(bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self))
            }
        }
        images.append(image)
    case .progress, .event: break
    case .reply(let reply):
        print("unexpected: \(reply)")
        exit(1)
    }
}
print("done", sum)
fflush(nil)
_ = readLine()
