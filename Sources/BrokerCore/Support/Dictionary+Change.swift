extension Dictionary {
    /// Changes the value of a key in its place, if there is one.
    ///
    /// `dictionary[key]?.property = …` takes the value out through three coroutines, each with a heap allocation, and
    /// copies it back: six times as long for a value of some size.
    @inline(__always) @discardableResult
    mutating func change<Result>(_ key: Key, _ body: (inout Value) -> Result) -> Result? {
        guard let place = index(forKey: key) else { return nil }
        return body(&values[place])
    }

    /// Changes the value of a key in its place, or of `initial` if there is none.
    @inline(__always) @discardableResult
    mutating func change<Result>(
        _ key: Key, default initial: @autoclosure () -> Value, _ body: (inout Value) -> Result
    ) -> Result {
        if let place = index(forKey: key) { return body(&values[place]) }
        var value = initial()
        defer { self[key] = value }
        return body(&value)
    }

    /// Gives back the memory of a table that was large and is empty, which `removeValue` keeps.
    mutating func releaseIfEmpty() { if isEmpty { self = [:] } }
}
