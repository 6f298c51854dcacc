/// Descriptions, metadata and previews, from the request to the bytes.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HeaderRequestTests {
    private static let picture = TestPicture.squares(columns: 5, rows: 3, side: 16)
    private static let exif = TestExif.block(orientation: 6)
    private static let file = TestExif.inserted(exif, intoJPEG: picture.jpeg(.baseline))
    private static let header = #""delivery":"header""#

    @Test func `a description has the fields of the file and the response`() throws {
        let response = LocalOrigin.Response.ok(Self.file).with {
            $0.headers += [
                OriginHeader("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"), OriginHeader("ETag", "\"1\""),
                OriginHeader("Cache-Control", "max-age=1000"),
            ]
        }
        let (setting, client) = try Setting(routes: ["/a": response]).withClient()
        #expect(try Set(["header", "metadata", "embedded"]).isSubset(of: client.hello().features))
        for source in ["network", "memory"] {
            let reply = try client.load(setting.url("/a"), Self.header)
            #expect(reply.fields["source"] as? String == source)
            #expect(reply.fields["width"] as? Int == 48 && reply.fields["height"] as? Int == 80)
            #expect(reply.fields["format"] as? String == "jpeg" && reply.fields["orientation"] as? Int == 6)
            #expect(reply.fields["bitDepth"] as? Int == 8 && reply.fields["hasAlpha"] as? Bool == false)
            #expect(reply.fields["status"] as? Int == 200 && reply.fields["etag"] as? String == "\"1\"")
            #expect(reply.fields["lastModified"] as? String == "Sun, 06 Nov 1994 08:49:37 GMT")
            #expect(reply.fields["length"] as? Int == Self.file.count && reply.fields["bytes"] as? Int == 0)
            #expect(reply.fields["buffer"] == nil)
        }
        #expect(try client.stats()[.decodes] == 0)
    }

    @Test(arguments: ["", #","delivery":"inline""#, #","delivery":"header""#])
    func `blocks are those of the file`(members: String) throws {
        let (setting, client) = try Setting(routes: ["/a": .ok(Self.file), "/b": .ok(Self.picture.png)]).withClient()
        for mapsSegments in [false, true] {
            if mapsSegments { try client.mapSegments() }
            let reply = try client.load(setting.url("/a"), #""metadata":["exif","xmp"]"# + members)
            let image = try reply.image()
            #expect(image.metadata.exif == Self.exif.count && image.metadata.xmp == nil)
            let range = try #require(image.range(of: .exif))
            #expect(Array(try client.bytes(of: reply)[range]) == Self.exif)
            let none = try client.load(setting.url("/b"), #""metadata":["exif","xmp"]"# + members).image()
            #expect(none.blocks.isEmpty && none.metadata == MetadataLengths())
        }
        #expect(try client.failure(setting.url("/a"), #""metadata":["iptc"]"#).code == .badRequest)
        #expect(try client.failure(setting.url("/a"), #""metadata":["exif"],"as":"original""#).code == .badRequest)
        #expect(try client.failure(setting.url("/a"), #""embedded":"slow""#).code == .badRequest)
    }

    /// The rest of the file is downloaded when its pixels are wanted.
    @Test func `the download of a large JPEG ends after its header`() throws {
        let body = Self.file + [UInt8](repeating: 0, count: 4 << 20)
        let setting = try Setting { request in
            LocalOrigin.Response.resource(body, etag: "\"1\"", cacheControl: "max-age=1000", for: request).with {
                if request["Range"] == nil { $0.hold = .afterBytes(200_000) }
            }
        }
        defer { setting.origin.gate("/a").open() }
        let client = try setting.client()
        let reply = try client.load(setting.url("/a"), Self.header)
        #expect(reply.fields["width"] as? Int == 48 && reply.fields["length"] as? Int == body.count)
        try setting.broker.wait(for: "the transfer has ended") { $0.runningJobs[.download] ?? 0 == 0 }
        let image = try client.load(setting.url("/a")).image()
        #expect((image.width, image.height) == (48, 80))
        let requests = setting.origin.requests("/a")
        #expect(requests.count == 2 && requests.last?["Range"] != nil)
    }

    @Test func `the command prints a table, and objects`() throws {
        let setting = try Setting(routes: ["/a": .ok(Self.file)])
        let table = try setting.broker.run(["info", setting.url("/a")])
        #expect(table.exit == .status(0))
        #expect(table.output.contains("48 × 80") && table.output.contains("JPEG, image/jpeg"))
        let object = try setting.broker.run(["info", setting.url("/a"), setting.url("/b"), "--json"])
        #expect(object.exit == .status(1))
        #expect(object.output.contains(#""format":"jpeg""#) && object.output.contains(#""code":"http-status""#))
        #expect(try setting.broker.run(["info"]).exit == .status(2))
    }
}
