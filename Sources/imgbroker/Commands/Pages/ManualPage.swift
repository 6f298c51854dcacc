/// The manual pages, in the macros of man(7), made of the same tables as the help.
enum ManualPage: String, CaseIterable {
    case broker = "imgbroker.8"
    case configuration = "imgbroker.conf.5"
    case get = "imgbroker-get.1"
    case info = "imgbroker-info.1"
    case store = "imgbroker-store.1"
    case ctl = "imgbroker-ctl.1"
    case exporter = "imgbroker-exporter.1"
    case http = "imgbroker-http.1"
}
