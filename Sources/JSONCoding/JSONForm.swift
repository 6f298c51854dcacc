/// How the values of JSON are written.
package enum JSONForm {
    /// As text (RFC 8259).
    case text
    /// Packed, for messages between processes of the same version: no byte is looked at to find the end of a value, and
    /// no number is converted. A value is one of these:
    ///
    /// - a string: `"`, the number of its bytes in 4 bytes, the bytes in UTF-8;
    /// - a number: `#` and an integer in 8 bytes, or `~` and a floating-point number (IEEE 754) in 8 bytes;
    /// - `t`, `f` or `n`, for true, false and null;
    /// - an array: `[`, values, `]`;
    /// - an object: `{`, for each member its name as a string and its value, `}`.
    ///
    /// The lowest byte of a number comes first.
    case packed
}
