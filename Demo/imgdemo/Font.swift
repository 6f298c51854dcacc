/// A font of five by seven dots, with an eighth row for descenders.
enum Font {
    /// The number of dots in a row of a character.
    static let width = 5
    /// The distance between characters in dots.
    static let advance = 6

    /// The rows of a character, from the top; five bits each, the highest on the left. Unknown characters are a box.
    static func rows(of character: Character) -> [Int] {
        (glyphs[character] ?? "0VHHHHV0").map { Int(String($0), radix: 32) ?? 0 }
    }

    /// The rows of each character: one digit to the base 32 a row.
    private static let glyphs: [Character: String] = [
        "→": "042V2400", " ": "00000000", "!": "44444040", "\"": "AA000000", "#": "AAVAVAA0", "%": "PP248JJ0",
        "&": "CIK8LID0", "'": "44000000", "(": "24888420", ")": "84222480", "*": "04LEL400", "+": "044V4400",
        ",": "00000448", "-": "000E0000", ".": "00000CC0", "/": "11248GG0", "0": "EHJLPHE0", "1": "4C4444E0",
        "2": "EH1248V0", "3": "V2421HE0", "4": "26AIV220", "5": "VGU11HE0", "6": "68GUHHE0", "7": "V1244440",
        "8": "EHHEHHE0", "9": "EHHF12C0", ":": "0CC0CC00", ";": "0CC0C480", "<": "248G8420", "=": "00V0V000",
        ">": "84212480", "?": "EH124040", "@": "EHNLMGE0", "A": "EHHVHHH0", "B": "UHHUHHU0", "C": "EHGGGHE0",
        "D": "SIHHHIS0", "E": "VGGUGGV0", "F": "VGGUGGG0", "G": "EHGNHHF0", "H": "HHHVHHH0", "I": "E44444E0",
        "J": "72222IC0", "K": "HIKOKIH0", "L": "GGGGGGV0", "M": "HRLLHHH0", "N": "HHPLJHH0", "O": "EHHHHHE0",
        "P": "UHHUGGG0", "Q": "EHHHLID0", "R": "UHHUKIH0", "S": "FGGE11U0", "T": "V4444440", "U": "HHHHHHE0",
        "V": "HHHHHA40", "W": "HHHLLLA0", "X": "HHA4AHH0", "Y": "HHHA4440", "Z": "V1248GV0", "[": "E88888E0",
        "]": "E22222E0", "_": "000000V0", "a": "00E1FHF0", "b": "GGMPHHU0", "c": "00EGGHE0", "d": "11DJHHF0",
        "e": "00EHVGE0", "f": "698S8880", "g": "00FHHF1E", "h": "GGMPHHH0", "i": "40C444E0", "j": "206222IC",
        "k": "GGIKOKI0", "l": "C44444E0", "m": "00QLLHH0", "n": "00MPHHH0", "o": "00EHHHE0", "p": "00UHHUGG",
        "q": "00FHHF11", "r": "00MPGGG0", "s": "00FGE1U0", "t": "88S88960", "u": "00HHHJD0", "v": "00HHHA40",
        "w": "00HHLLA0", "x": "00HA4AH0", "y": "00HHHF1E", "z": "00V248V0", "~": "0009LI00", "×": "00HA4AH0",
        "…": "000000L0", "·": "00040000",
    ]
}
