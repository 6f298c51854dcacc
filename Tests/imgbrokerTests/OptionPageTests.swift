@testable import imgbroker

/// Compares docs/options.md with the settings of the program.
///
/// With IMGBROKER_UPDATE_DOCS=1 the page is written instead.
struct OptionPageTests {
    private static let page = BuiltProducts.package + "/docs/options.md"

    private static var text: String {
        let tables = BrokerSetting.groups.map { group in
            """
            ## \(group.title)

            | key | default | meaning |
            |---|---|---|
            \(group.settings.map(row).joined(separator: "\n"))
            """
        }
        return """
            # Options of the broker

            Each key below is a line of the configuration file (`memory-limit = 1G`), a variable of the environment
            (`IMGBROKER_MEMORY_LIMIT=1G`) and a flag (`--memory-limit 1G`). A flag counts more than the environment, and that more
            than the file. \(BrokerCommandLine.units)

            The file is `\(ConfigurationFile.pathOfSystem)` if it exists, unless `--config` or `$IMGBROKER_CONFIG` names another. A
            broker that a user other than root starts in a session (`$XDG_RUNTIME_DIR` is set) reads
            `$XDG_CONFIG_HOME/\(ConfigurationFile.nameOfUsers)` (`~/.config/…`) instead, if that exists, as the user's systemd unit does.
            Lines that begin with `#` are comments. An unknown key or a wrong value ends the start with the file's name and the
            line. Keys marked with * may be given several times: in several lines, or in the environment with commas between the
            values. `imgbroker --check-config` shows each setting and where it comes from. `imgbroker ctl reload`, `SIGHUP` and
            `systemctl reload imgbroker` read the file again ([operations](operations.md#changing-settings)). Keys marked with †
            keep their value until a restart.

            \(tables.joined(separator: "\n\n"))

            ## Presets

            A section `[preset NAME]` after all settings describes a variant, which requests name: `"preset": "avatar"` in the
            [protocol](protocol.md#presets), `imgbroker get --preset avatar`. At most \(ConfigurationFile.mostPresets) presets. A reload changes them.

            ```ini
            [preset avatar]
            width = 64
            height = 64
            fit = cover
            step = round:circle
            ```

            | key | meaning |
            |---|---|
            \(GetOptions.Variant.options.map(row).joined(separator: "\n"))

            """
    }

    private static func row(_ option: VariantOption) -> String {
        "| `\(option.name)\(option.value.map { " \($0)" } ?? "")`\(option.isRepeatable ? " *" : "") | \(option.summary) |"
    }

    private static func row(_ setting: BrokerSetting) -> String {
        let value = setting.value.map { " \($0)" } ?? ""
        let usual = setting.usualInWords ?? setting.usual.map { "`\($0)`" } ?? ""
        return
            "| `\(setting.name)\(value)`\(setting.isRepeatable ? " *" : "")\(setting.onReload == .needsRestart ? " †" : "") | \(usual) | \(setting.summary) |"
    }

    @Test func `the page has the settings`() throws {
        if ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_DOCS"] == "1" {
            try Self.text.write(toFile: Self.page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOfFile: Self.page, encoding: .utf8) == Self.text)
    }
}
