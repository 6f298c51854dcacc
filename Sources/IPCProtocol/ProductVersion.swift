/// The version of this software.
public enum ProductVersion {
    /// The version alone: "0.1.0".
    public static let current = "0.1.0"
    /// Name and version as HTTP's product token: "imgbroker/0.1.0".
    public static let product = "imgbroker/\(current)"
}
