import WorkerProtocol

@testable import imgbroker

/// The table of `imgbroker --formats`.
struct FormatsCommandTests {
    private let rows = [
        FormatRow(.png, hasFrames: true, isEncoded: true, orientation: "EXIF", library: "libpng 1.6"),
        FormatRow(.jxl, orientation: "none", library: "libjxl 0.7"),
    ]

    @Test func text() {
        #expect(
            FormatsCommand.text(rows) == """
                Format   Media type  Several images  Also written  Orientation  Decoded by
                PNG      image/png   yes             yes           EXIF         libpng 1.6
                JPEG XL  image/jxl   no              no            none         libjxl 0.7

                """)
    }

    @Test func json() {
        #expect(
            FormatsCommand.object(rows) == """
                {"formats":[{"format":"png","contentType":"image/png","frames":true,"encoded":true,\
                "orientation":"EXIF","library":"libpng 1.6"},{"format":"jxl","contentType":"image/jxl",\
                "frames":false,"encoded":false,"orientation":"none","library":"libjxl 0.7"}]}
                """)
    }

    @Test func reportOfAProgram() throws {
        let report = FormatReport(rows)
        #expect(try FormatReport.read(report.encoded().dropFirst(4)).message == report)
    }
}
