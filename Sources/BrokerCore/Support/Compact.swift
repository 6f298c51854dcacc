// Properties of records of which there may be a million, in fewer bytes.

/// A value that few records have, in a block of its own, so that the others need no room for it.
@propertyWrapper struct Rare<Value: Hashable & Sendable>: Hashable, Sendable {
    private final class Block: Sendable {
        let value: Value
        init(_ value: Value) { self.value = value }
    }

    private var block: Block?

    init(wrappedValue: Value?) { block = wrappedValue.map { Block($0) } }

    var wrappedValue: Value? {
        get { block?.value }
        set { block = newValue.map { Block($0) } }
    }

    static func == (left: Rare, right: Rare) -> Bool {
        left.block === right.block || left.wrappedValue == right.wrappedValue
    }

    func hash(into hasher: inout Hasher) { hasher.combine(wrappedValue) }
}

/// A number below 2³², such as that of a slot.
@propertyWrapper struct Short {
    private var number: UInt32

    init(wrappedValue: Int) { number = UInt32(wrappedValue) }

    var wrappedValue: Int {
        get { Int(number) }
        set { number = UInt32(newValue) }
    }
}

/// The number of a slot, or none.
@propertyWrapper struct SlotLink {
    /// The number plus 1; 0 for none.
    private var link: UInt32

    init(wrappedValue: Int?) { link = wrappedValue.map { UInt32($0 + 1) } ?? 0 }

    var wrappedValue: Int? {
        get { link == 0 ? nil : Int(link) - 1 }
        set { self = SlotLink(wrappedValue: newValue) }
    }
}
