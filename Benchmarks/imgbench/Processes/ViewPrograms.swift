import BrokerHarness
import Foundation

/// A virtual display.
final class ViewDisplay {
    /// The value of `DISPLAY`.
    let name: String
    private let process: LineProcess

    /// Starts a display; nil, with a message, without Xvfb.
    init?() throws {
        // It runs until its input ends, with this process at the latest. Without -noreset it would start anew after its
        // last client.
        process = try LineProcess(
            "/bin/sh",
            [
                "-c",
                """
                Xvfb -displayfd 3 -screen 0 480x1080x24 -nolisten tcp -noreset 3>&1 >/dev/null 2>&1 &
                read -r line
                kill $! 2>/dev/null
                wait
                """,
            ])
        // Without Xvfb, the shell's copy of its output stays open.
        guard let number = ViewPrograms.isInstalled("Xvfb") ? process.line() : nil else {
            printLine("no rows of view: Xvfb is missing (Debian: xvfb)")
            process.stop()
            return nil
        }
        name = ":" + number
    }

    func stop() { process.stop() }
}

/// The programs of Benchmarks/view, which are built when they are needed.
struct ViewPrograms {
    enum Name: String, CaseIterable {
        case imgbroker = "view-imgbroker"
        case gtk = "view-inprocess"
        case qt = "view-qt"
    }

    private static let source = "Benchmarks/view"
    private let folder = packageFolder + "/.build/view"
    private let display: ViewDisplay
    private let files: Photographs
    private var missing: Set<Name> = []

    /// Builds the programs; nil, with a message, without GTK.
    ///
    /// - Throws: `Failure` when they cannot be built.
    init?(_ display: ViewDisplay, _ files: Photographs) throws {
        (self.display, self.files) = (display, files)
        guard make(Self.source, into: folder) else { throw Failure("\(Self.source) cannot be built") }
        missing = Set(Name.allCases.filter { !FileManager.default.isExecutableFile(atPath: path($0)) })
        if !missing.isDisjoint(with: [.imgbroker, .gtk]) {
            printLine("no rows of view: GTK 4 is missing (Debian: libgtk-4-dev, libjansson-dev)")
            return nil
        }
        // The modules of QML are found when it starts.
        let firstLine = try missing.contains(.qt) ? nil : start(.qt, nil).line()
        if firstLine == nil {
            missing.insert(.qt)
            printLine(
                "no Qt in view: Qt 6 is missing (Debian: qt6-declarative-dev, qml6-module-qtquick, "
                    + "qml6-module-qtqml-workerscript)")
        }
    }

    func has(_ name: Name) -> Bool { !missing.contains(name) }

    /// Starts a program, with the socket of a broker.
    func start(_ name: Name, _ socket: String?) throws -> LineProcess {
        let environment = [
            "DISPLAY=\(display.name)", "GDK_BACKEND=x11", "GSK_RENDERER=cairo", "GTK_A11Y=none",
            "GSETTINGS_BACKEND=memory",
            "QT_QPA_PLATFORM=xcb", "QT_QUICK_BACKEND=software", "XDG_RUNTIME_DIR=\(files.folder)",
            "XDG_CACHE_HOME=\(files.folder)/.cache", "LC_ALL=C.UTF-8",
        ]
        return try LineProcess(
            "/usr/bin/env",
            environment + (socket.map { ["IMGBROKER_SOCKET=\($0)"] } ?? []) + [path(name)]
                + (name == .qt ? ["\(packageFolder)/\(Self.source)/view.qml"] : []) + [
                    files.folder, "\(files.count)", "60",
                ])
    }

    static func isInstalled(_ program: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
    }

    private func path(_ name: Name) -> String { "\(folder)/\(name.rawValue)" }
}
