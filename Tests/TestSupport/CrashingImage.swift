/// Images that end the process that decodes them, and others like them that do not.
package enum CrashingImage {
    /// An SVG with an empty `feTile`, on which librsvg 2.54 aborts; other bytes for each number. Later versions decode
    /// it.
    package static func svg(_ number: Int) -> [UInt8] {
        document(number, filter: #"<feFlood x="2" y="2" width="0" height="0"/><feTile/>"#)
    }

    package static func harmlessSVG(_ number: Int) -> [UInt8] { document(number, filter: "<feOffset/>") }

    private static func document(_ number: Int, filter: String) -> [UInt8] {
        Array(
            """
            <svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"><!--\(number)--><filter id="f">\(filter)</filter>\
            <rect width="16" height="16" fill="red" filter="url(#f)"/></svg>
            """.utf8)
    }
}
