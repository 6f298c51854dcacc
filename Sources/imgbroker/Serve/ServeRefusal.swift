/// Why the broker does not start, with the exit status.
struct ServeRefusal: Error, CustomStringConvertible {
    let description: String
    let status: Int32

    init(_ description: String, status: Int32 = 1) { (self.description, self.status) = (description, status) }
}
