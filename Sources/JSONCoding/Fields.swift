/// A value that is a JSON object on the wire. It names each of its fields once, in `list`, which both reads and writes.
///
///     mutating func list(_ fields: inout Fields) {
///         fields.string("key", &key)
///         fields.integer("bytes", &bytes, in: 0...Int.max)
///         fields.string("varyKey", &varyKey)
///     }
package protocol FieldList {
    /// The value that reading starts from. A field that is absent keeps its value.
    static var blank: Self { get }

    /// Names all fields, in the order of their writing.
    ///
    /// When `fields` is reading, each call assigns a field; when it is writing, each call writes one, and `self` stays
    /// as it is. Properties that follow from several fields are computed at the end, if `fields.isReading`.
    mutating func list(_ fields: inout Fields)
}

/// A list of fields whose initial values are those that reading starts from.
package protocol InitialFieldList: FieldList {
    init()
}

extension InitialFieldList {
    package static var blank: Self { Self() }
}

/// The fields of one JSON object, which a `FieldList` reads or writes by naming them.
///
/// Reading begins with one pass over the text, which checks all of it and notes where each member stands; after that no
/// field can be malformed JSON. Packed, a value is checked when it is read. A field of the wrong type or out of range
/// is noted in `problem` and keeps its value, so that the rest of the message is still read and the error can name the
/// message's `id`. Of members with the same name the last counts. Unknown members are ignored.
package struct Fields {
    /// A field that does not conform to the protocol.
    package struct Problem: Error, Equatable {
        /// The field's name, with the names of the objects around it: "variant.width".
        package let field: String
        /// The expected value: "an integer from 1 to 65535".
        package let expected: String
    }

    /// The requirement on a field when it is read. When written, it is always there.
    package enum Presence {
        /// Its absence is a problem.
        case required
        /// It keeps its value when it is absent.
        case optional
    }

    /// Whether fields are read; else they are written.
    package let isReading: Bool
    /// The first field that did not conform to the protocol.
    package private(set) var problem: Problem?
    /// An error that the reader of a field has stated itself: for a well-formed field that it does not accept.
    package private(set) var refusal: (any Error)?

    private var reader: JSONReader
    private var members: [JSONReader.Member] = []
    /// The bits of all members' keys.
    private var keys: UInt64 = 0
    /// Whether two members have the same key, and may have the same name.
    private var mayRepeat = false
    /// The member after the one that was found last.
    private var next = 0
    var writer: JSONWriter

    /// Starts to read the object that is all of `text`, which is not copied.
    ///
    /// - Parameter tokens: the maximum number of values, names, escape sequences and characters beyond ASCII in `text`.
    /// - Throws: `MalformedJSON`.
    package init(reading text: ArraySlice<UInt8>, tokens: Int = .max) throws(JSONReader.MalformedJSON) {
        isReading = true
        reader = JSONReader(text)
        writer = JSONWriter(capacity: 0)
        try index(tokens: tokens)
        try reader.expectEnd()
    }

    /// Starts to read the packed object that `bytes` begin with. `rest` is set to those after it.
    package init(
        packed bytes: ArraySlice<UInt8>, rest: inout ArraySlice<UInt8>
    ) throws(JSONReader.MalformedJSON) {
        isReading = true
        reader = JSONReader(bytes, form: .packed)
        writer = JSONWriter(capacity: 0)
        try index()
        rest = bytes.dropFirst(reader.scanner.position)
    }

    private init(writing writer: consuming JSONWriter) {
        isReading = false
        reader = JSONReader([])
        self.writer = writer
    }

    /// Notes that `name` is not `expected`, unless a problem was noted before. A name from the message is shortened.
    package mutating func note(_ name: String, expected: String) {
        if problem == nil { problem = Problem(field: name.shortened(80), expected: expected) }
    }

    private mutating func note(_ name: StaticString, _ expected: String) { note("\(name)", expected: expected) }

    /// States the error for a field that is well-formed but not accepted, unless one was stated before.
    package mutating func refuse(with error: any Error) {
        if refusal == nil { refusal = error }
    }

    // MARK: Single values

    /// A member that is written and not read: it follows from the others.
    package mutating func constant(_ name: StaticString, _ value: String) {
        if isReading { return }
        writer.name(name)
        writer.value(value)
    }

    /// A member that is written and not read: it follows from the others.
    package mutating func constant(_ name: StaticString, _ value: Bool) {
        if isReading { return }
        writer.name(name)
        writer.value(value)
    }

    /// A member that is written and not read: it follows from the others.
    package mutating func constant(_ name: StaticString, _ value: Int) {
        if isReading { return }
        writer.name(name)
        writer.value(value)
    }

    /// A string of at most `most` bytes.
    package mutating func string(
        _ name: StaticString, _ value: inout String, most: Int = .max, _ presence: Presence = .required
    ) {
        if !isReading { return constant(name, value) }
        if find(name, presence), let read = readString("\(name)", most) { value = read }
    }

    /// A string of at most `most` bytes, absent when it is nil.
    package mutating func string(_ name: StaticString, _ value: inout String?, most: Int = .max) {
        if isReading {
            if find(name, .optional), let read = readString("\(name)", most) { value = read }
        } else if let value {
            constant(name, value)
        }
    }

    /// A boolean, absent when it is nil.
    package mutating func boolean(_ name: StaticString, _ value: inout Bool?) {
        optional(name, &value, from: false) { $0.boolean(name, &$1) }
    }

    /// A boolean.
    package mutating func boolean(_ name: StaticString, _ value: inout Bool, _ presence: Presence = .required) {
        if !isReading { return constant(name, value) }
        guard find(name, presence) else { return }
        if reader.nextIsBoolean, let read = try? reader.readBoolean() {
            value = read
        } else {
            note(name, "true or false")
        }
    }

    /// A boolean, written only when it is true.
    package mutating func flag(_ name: StaticString, _ value: inout Bool) {
        if isReading || value { boolean(name, &value, .optional) }
    }

    /// An integer.
    package mutating func integer(
        _ name: StaticString, _ value: inout Int, in range: ClosedRange<Int>, _ presence: Presence = .required
    ) {
        if !isReading { return constant(name, value) }
        if find(name, presence), let read = readInteger("\(name)", in: range) { value = read }
    }

    /// An integer, written only when it differs from `usual`.
    package mutating func integer(
        _ name: StaticString, _ value: inout Int, in range: ClosedRange<Int>, omitting usual: Int
    ) {
        if isReading || value != usual { integer(name, &value, in: range, .optional) }
    }

    /// An integer, absent when it is nil.
    package mutating func integer(_ name: StaticString, _ value: inout Int?, in range: ClosedRange<Int>) {
        if isReading {
            if find(name, .optional), let read = readInteger("\(name)", in: range) { value = read }
        } else if let value {
            constant(name, value)
        }
    }

    /// An integer, null when it is nil. It may also be absent.
    package mutating func nullableInteger(_ name: StaticString, _ value: inout Int?, in range: ClosedRange<Int>) {
        if isReading {
            if find(name, .optional), !reader.nextIsNull, let read = readInteger("\(name)", in: range) { value = read }
        } else if let value {
            constant(name, value)
        } else {
            writer.name(name)
            writer.null()
        }
    }

    /// A number, as floating point.
    package mutating func number(_ name: StaticString, _ value: inout Double, _ presence: Presence = .required) {
        if isReading {
            guard find(name, presence) else { return }
            if reader.nextIsNumber, let read = try? reader.readNumber() {
                value = read
            } else {
                note(name, "a number")
            }
        } else {
            writer.name(name)
            writer.value(value)
        }
    }

    /// A number within `range`, written so that it reads as the same value.
    package mutating func number(
        _ name: StaticString, _ value: inout Double, in range: ClosedRange<Double>, _ presence: Presence = .required
    ) {
        if isReading {
            guard find(name, presence) else { return }
            if reader.nextIsNumber, let read = try? reader.readNumber(), range.contains(read) {
                // Zero has two forms.
                value = read == 0 ? 0 : read
            } else {
                note(name, "a number from \(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))")
            }
        } else {
            writer.name(name)
            writer.exactValue(value)
        }
    }

    /// A number for people: without a fraction of zero.
    private static func text(_ number: Double) -> String { Int(exactly: number).map(String.init) ?? "\(number)" }

    /// A raw value of an enumeration.
    package mutating func choice<Choice>(_ name: StaticString, _ value: inout Choice, _ presence: Presence = .required)
    where Choice: RawRepresentable<String> & CaseIterable {
        if !isReading { return constant(name, value.rawValue) }
        if find(name, presence), let read: Choice = readChoice(name) { value = read }
    }

    /// A raw value of an enumeration, written only when it differs from `usual`.
    package mutating func choice<Choice>(_ name: StaticString, _ value: inout Choice, omitting usual: Choice)
    where Choice: RawRepresentable<String> & CaseIterable & Equatable {
        if isReading || value != usual { choice(name, &value, .optional) }
    }

    /// A raw value of an enumeration, absent when it is nil.
    package mutating func choice<Choice>(_ name: StaticString, _ value: inout Choice?)
    where Choice: RawRepresentable<String> & CaseIterable {
        if isReading {
            if find(name, .optional), let read: Choice = readChoice(name) { value = read }
        } else if let value {
            constant(name, value.rawValue)
        }
    }

    // MARK: Arrays

    /// An array of at most `most` strings of together at most `bytes` bytes. Reading ends at the first element that is
    /// not a string.
    package mutating func strings(
        _ name: StaticString, _ values: inout [String], most: Int = .max, bytes: Int = .max,
        _ presence: Presence = .required
    ) {
        if isReading {
            var left = bytes
            readElements(name, most, presence, &values) { fields, name in
                guard fields.reader.nextIsString else { return fields.readString("\(name)", .max) }
                guard let read = (try? fields.reader.readString(most: left)) ?? nil else {
                    fields.note("\(name)", expected: "strings of together at most \(bytes) bytes")
                    return nil
                }
                left -= read.utf8.count
                return read
            }
        } else {
            writer.array(name) { writer in
                for value in values { writer.value(value) }
            }
        }
    }

    /// An array of strings, absent when it is empty.
    package mutating func strings(_ name: StaticString, orNone values: inout [String]) {
        if isReading || !values.isEmpty { strings(name, &values, .optional) }
    }

    /// An array of strings, absent when it is nil.
    package mutating func strings(_ name: StaticString, _ values: inout [String]?) {
        optional(name, &values, from: []) { $0.strings(name, &$1) }
    }

    /// An array of at most `most` integers. Reading ends at the first that is none.
    package mutating func integers(
        _ name: StaticString, _ values: inout [Int], in range: ClosedRange<Int>, most: Int = .max,
        _ presence: Presence = .required
    ) {
        if isReading {
            readElements(name, most, presence, &values) { $0.readInteger("\($1)", in: range) }
        } else {
            writer.array(name) { writer in
                for value in values { writer.value(value) }
            }
        }
    }

    /// An array of at most `most` objects, absent when it is empty.
    package mutating func objects<Value: FieldList>(
        _ name: StaticString, orNone values: inout [Value], most: Int = .max, isNumbered: Bool = false
    ) {
        if isReading || !values.isEmpty { objects(name, &values, most: most, isNumbered: isNumbered, .optional) }
    }

    /// An array of at most `most` objects. Reading ends at the first that has a problem. With `isNumbered`, the problem
    /// names the object's index.
    package mutating func objects<Value: FieldList>(
        _ name: StaticString, _ values: inout [Value], most: Int = .max, isNumbered: Bool = false,
        _ presence: Presence = .required
    ) {
        if isReading {
            var index = 0
            readElements(name, most, presence, &values) { fields, name in
                var value = Value.blank
                fields.nested(isNumbered ? "\(name)[\(index)]" : "\(name)") { value.list(&$0) }
                index += 1
                return fields.problem == nil ? value : nil
            }
        } else {
            writer.array(name) { writer in
                for var value in values { Self.write(&writer) { value.list(&$0) } }
            }
        }
    }

    // MARK: Objects

    /// An object whose fields `list` names.
    package mutating func object(
        _ name: StaticString, _ presence: Presence = .required, _ list: (inout Fields) -> Void
    ) {
        if isReading {
            if find(name, presence) { nested("\(name)", list) }
        } else {
            writer.name(name)
            writer.open(UInt8(ascii: "{"))
            list(&self)
            writer.close(UInt8(ascii: "}"))
        }
    }

    /// An object.
    package mutating func object<Value: FieldList>(_ name: StaticString, _ value: inout Value) {
        object(name) { value.list(&$0) }
    }

    /// An object, absent when it is nil.
    package mutating func object<Value: FieldList>(_ name: StaticString, _ value: inout Value?) {
        optional(name, &value, from: .blank) { $0.object(name, &$1) }
    }

    /// Fields that are either all absent, and the value is nil, or there with the member `name`.
    package mutating func group<Value: FieldList>(with name: StaticString, _ value: inout Value?) {
        optional(name, &value, from: .blank) { $1.list(&$0) }
    }

    /// A value that is nil if the member `name` is absent; reading starts from `blank`.
    private mutating func optional<Value>(
        _ name: StaticString, _ value: inout Value?, from blank: @autoclosure () -> Value,
        _ list: (inout Fields, inout Value) -> Void
    ) {
        guard isReading ? has(name) : value != nil else { return }
        var present = isReading ? blank() : value ?? blank()
        list(&self, &present)
        value = present
    }

    // MARK: Values of cases

    // These return the value that was read or, when it is written, `value`: for the associated values of an
    // enumeration's case.

    /// The value whose field or fields `list` names.
    package mutating func value<Value>(_ value: Value, _ list: (inout Fields, inout Value) -> Void) -> Value {
        var value = value
        list(&self, &value)
        return value
    }

    package mutating func string(_ name: StaticString, _ value: String) -> String {
        self.value(value) { $0.string(name, &$1) }
    }

    package mutating func string(_ name: StaticString, _ value: String?) -> String? {
        self.value(value) { $0.string(name, &$1) }
    }

    package mutating func strings(_ name: StaticString, _ values: [String]) -> [String] {
        value(values) { $0.strings(name, &$1) }
    }

    package mutating func integer(_ name: StaticString, _ value: Int, in range: ClosedRange<Int>) -> Int {
        self.value(value) { $0.integer(name, &$1, in: range) }
    }

    package mutating func integer(_ name: StaticString, _ value: Int?, in range: ClosedRange<Int>) -> Int? {
        self.value(value) { $0.integer(name, &$1, in: range) }
    }

    package mutating func object<Value: FieldList>(_ name: StaticString, _ value: Value) -> Value {
        self.value(value) { $0.object(name, &$1) }
    }

    package mutating func object<Value: FieldList>(_ name: StaticString, _ value: Value?) -> Value? {
        self.value(value) { $0.object(name, &$1) }
    }

    package mutating func objects<Value: FieldList>(_ name: StaticString, _ values: [Value]) -> [Value] {
        value(values) { $0.objects(name, &$1) }
    }

    /// The value whose fields are members of this object.
    package mutating func members<Value: FieldList>(of value: Value) -> Value {
        self.value(value) { $1.list(&$0) }
    }

    // MARK: Members with names of their own

    /// The names of all members that were read, in their order.
    package var names: [String] { members.map { reader.name(of: $0, most: .max) ?? "" } }

    /// Notes members that were read and have other names. For objects in which a member that is not understood must not
    /// be ignored.
    package mutating func noteUnknownNames(besides known: [String]) {
        guard isReading, let other = names.first(where: { !known.contains($0) }) else { return }
        note(other, expected: "absent: the members are " + known.joined(separator: ", "))
    }

    /// The number of members that were read.
    package var memberCount: Int { members.count }

    /// Returns the name of the member at `index`, in the order of the text; nil when it is longer than `most` bytes.
    package func name(at index: Int, most: Int) -> String? { reader.name(of: members[index], most: most) }

    /// Reads the string of the member at `index`, whose name is `name`; nil when it is longer than `most` bytes, and
    /// also, with a note, when it is another value.
    package mutating func string(at index: Int, named name: String, most: Int) -> String? {
        reader.scanner.position = members[index].value
        guard reader.nextIsString else { return readString(name, .max) }
        return (try? reader.readString(most: most)) ?? nil
    }

    /// Writes a string under a name that is not fixed.
    package mutating func write(_ name: String, _ value: String) { writer.member(name, value) }

    /// An integer under a name that is not fixed. It keeps its value when it is absent.
    package mutating func integer(named name: String, _ value: inout Int, in range: ClosedRange<Int>) {
        if isReading {
            guard let index = index(of: name.utf8Span.span) else { return }
            reader.scanner.position = members[index].value
            if let read = readInteger(name, in: range) { value = read }
        } else {
            writer.member(name, value)
        }
    }

    /// An object under a name that is not fixed. It keeps its value when it is absent.
    package mutating func object<Value: FieldList>(named name: String, _ value: inout Value) {
        if isReading {
            guard let index = index(of: name.utf8Span.span) else { return }
            reader.scanner.position = members[index].value
            nested(name) { value.list(&$0) }
        } else {
            writer.name(name)
            Self.write(&writer) { value.list(&$0) }
        }
    }

    // MARK: Reading

    /// Whether a member of this name was read.
    package func has(_ name: StaticString) -> Bool { index(of: name) != nil }

    /// Whether a member of this name was read, and is a string.
    package func hasString(_ name: StaticString) -> Bool { reader(at: name)?.nextIsString ?? false }

    /// The string `name`; nil, without a note, when it is absent, another value or longer than `most` bytes.
    package func peekString(_ name: StaticString, most: Int) -> String? {
        guard var reader = reader(at: name), reader.nextIsString else { return nil }
        return (try? reader.readString(most: most)) ?? nil
    }

    /// The integer `name`; nil, without a note, when it is absent or another value.
    package func peekInteger(_ name: StaticString, in range: ClosedRange<Int>) -> Int? {
        guard var reader = reader(at: name), reader.nextIsNumber, let value = try? reader.readInteger() else {
            return nil
        }
        return range.contains(value) ? value : nil
    }

    /// A copy of the reader at the value of `name`; nil when it is absent.
    private func reader(at name: StaticString) -> JSONReader? {
        guard let index = index(of: name) else { return nil }
        var copy = reader
        copy.scanner.position = members[index].value
        return copy
    }

    private func index(of name: StaticString) -> Int? {
        unsafe index(of: Span(_unsafeStart: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    private func index(of name: Span<UInt8>) -> Int? {
        let key = FieldKey(name)
        guard keys & key.bit != 0 else { return nil }
        func isNamed(_ index: Int) -> Bool { members[index].key == key && reader.isNamed(members[index], name) }
        // Most messages have their members in the order in which these are read.
        if !mayRepeat, next < members.count, isNamed(next) { return next }
        return members.indices.last(where: isNamed)
    }

    /// Moves to the value of `name`; false, and a note if it is required, when there is none.
    private mutating func find(_ name: StaticString, _ presence: Presence) -> Bool {
        if let index = index(of: name) {
            reader.scanner.position = members[index].value
            next = index + 1
            return true
        }
        if presence == .required { note(name, "present") }
        return false
    }

    private mutating func readString(_ name: @autoclosure () -> String, _ most: Int) -> String? {
        if reader.nextIsString, let read = try? reader.readString(most: most) { return read }
        note(name(), expected: most == .max ? "a string" : "a string of at most \(most) bytes")
        return nil
    }

    private mutating func readInteger(_ name: @autoclosure () -> String, in range: ClosedRange<Int>) -> Int? {
        if reader.nextIsNumber, let read = try? reader.readInteger(), range.contains(read) { return read }
        note(name(), expected: "an integer from \(range.lowerBound) to \(range.upperBound)")
        return nil
    }

    private mutating func readChoice<Choice>(_ name: StaticString) -> Choice?
    where Choice: RawRepresentable<String> & CaseIterable {
        if reader.nextIsString, let text = try? reader.readString(most: Self.longestChoice),
            let read = Choice(rawValue: text)
        {
            return read
        }
        note(name, "one of " + Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", "))
        return nil
    }

    /// The longest raw value of an enumeration, in bytes.
    private static let longestChoice = 64

    /// Reads an array. `values` stay as they are when it is absent, has an element that `element` does not read, or
    /// more than `most`.
    private mutating func readElements<Element>(
        _ name: StaticString, _ most: Int, _ presence: Presence, _ values: inout [Element],
        _ element: (inout Fields, StaticString) -> Element?
    ) {
        guard find(name, presence) else { return }
        guard reader.nextIsArray else { return note(name, "an array") }
        var elements: [Element] = []
        _ = reader.take(UInt8(ascii: "["))
        if reader.take(UInt8(ascii: "]")) { return values = elements }
        repeat {
            if elements.count == most { return note(name, "an array of at most \(most) elements") }
            guard let read = element(&self, name) else { return }
            elements.append(read)
        } while reader.takeSeparator()
        values = elements
    }

    /// Reads the object at the reader's position with `list`, and moves behind it.
    private mutating func nested(_ name: @autoclosure () -> String, _ list: (inout Fields) -> Void) {
        guard reader.nextIsObject else { return note(name(), expected: "an object") }
        let (outer, isFirst) = ((members, keys, mayRepeat, next), problem == nil)
        do throws(JSONReader.MalformedJSON) {
            try index()
            let end = reader.scanner.position
            list(&self)
            reader.scanner.position = end
            if isFirst, let inner = problem {
                problem = Problem(field: "\(name()).\(inner.field)", expected: inner.expected)
            }
        } catch {
            note(name(), expected: error.expected)
        }
        (members, keys, mayRepeat, next) = outer
    }

    /// Skips the object at the reader's position and takes its members.
    private mutating func index(tokens: Int = .max) throws(JSONReader.MalformedJSON) {
        var found: [JSONReader.Member] = []
        // With two more, the memory would be larger than what glibc keeps at hand for the next ones (1,032 bytes).
        found.reserveCapacity(30)
        try reader.index(&found, tokens: tokens)
        // Of many members, it would take long to find out.
        (keys, mayRepeat, next) = (0, found.count > 32, 0)
        for (index, member) in found.enumerated() {
            if keys & member.key.bit != 0, !mayRepeat { mayRepeat = found[..<index].contains { $0.key == member.key } }
            keys |= member.key.bit
        }
        members = found
    }

    // MARK: Writing

    /// Writes one object with `list`.
    package static func write(_ writer: inout JSONWriter, _ list: (inout Fields) -> Void) {
        writer.open(UInt8(ascii: "{"))
        writeMembers(&writer, list)
        writer.close(UInt8(ascii: "}"))
    }

    /// Writes members of the object that `writer` is in.
    static func writeMembers(_ writer: inout JSONWriter, _ list: (inout Fields) -> Void) {
        // Moved to and fro, so that the bytes are not copied.
        var moved = JSONWriter(capacity: 0)
        swap(&moved, &writer)
        var fields = Fields(writing: consume moved)
        list(&fields)
        swap(&writer, &fields.writer)
    }
}

extension String {
    /// Returns the first `count` scalars. Not characters, one of which may be the whole text.
    package func shortened(_ count: Int) -> String { String(String.UnicodeScalarView(unicodeScalars.prefix(count))) }
}
