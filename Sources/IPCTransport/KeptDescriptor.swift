/// A descriptor that came with received bytes and that another process has, under a number. It is given up with the
/// last reference, unless it was taken.
package final class KeptDescriptor {
    private var number: Int?
    private let disposal: (Int) -> Void

    /// Creates a reference; `disposal` has the other process close the descriptor.
    package init(_ number: Int, disposal: @escaping (Int) -> Void) {
        self.number = number
        self.disposal = disposal
    }

    deinit { if let number { disposal(number) } }

    /// Takes the number, so that the caller has to give the descriptor up; nil when it was taken before.
    package func take() -> Int? { number.take() }
}
