private let ann: UInt32 = 20_001
private let bob: UInt32 = 20_002

/// Users share public entries and no private ones.
@Suite(
    .blocking, .enabled(if: getuid() == 0, "only root can connect as several users"),
    .timeLimit(.minutes(10)))
struct UserIsolationTests {
    /// Starts an origin whose answers all differ, each held until the path's gate opens.
    private func changingOrigin(
        _ arguments: [String] = [], holds: Bool = true, caching cacheControl: String = "max-age=600"
    ) throws -> Setting {
        try Setting(arguments) { request in
            png(tile(request.number * 251)).with {
                $0.headers.append(.init("Cache-Control", cacheControl))
                $0.hold = holds ? .beforeHeaders : .never
            }
        }
    }

    /// Has users request "/a" at once, and the origin answer when it holds `held` requests. Returns what each of them
    /// gets.
    private func pictures(
        _ setting: Setting, _ users: [RawClient], _ members: [String]? = nil, held: Int = 1
    ) throws -> [TestPicture] {
        let ids = try users.indices.map { try users[$0].get(setting.url("/a"), members?[$0] ?? "") }
        try setting.broker.wait(for: "all requests are pending") { $0[.requests] == users.count }
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == held })
        setting.origin.gate("/a").open()
        return try zip(users, ids).map { try $0.picture(answering: $1) }
    }

    @Test(arguments: [
        #""headers":{"Authorization":"Bearer abc"}"#, #""headers":{"Cookie":"a=1"}"#, #""cookies":true"#,
        #""credentials":{"username":"u","password":"p"}"#, #""cacheKey":"one""#,
    ])
    func credentialedLoadIsPrivate(_ members: String) throws {
        let setting = try changingOrigin()
        let users = try [ann, bob].map { try setting.client(as: $0) }
        let url = setting.url("/a")
        let pictures = try pictures(setting, users, [members, members], held: 2)
        #expect(pictures[0] != pictures[1])
        // From the cache, too, each user gets the own image.
        for (user, picture) in zip(users, pictures) {
            #expect(try user.loaded(url, members) == (picture, .memory))
        }
        #expect(setting.origin.requests.count == 2)
        // Root has an identity of its own and no access to the users' entries.
        let root = try setting.client()
        #expect(!pictures.contains(try root.picture(of: url, members)))
        #expect(setting.origin.requests.count == 3)
    }

    @Test func plainLoadIsShared() throws {
        let setting = try changingOrigin()
        let users = try [ann, bob].map { try setting.client(as: $0) }
        let members = #""headers":{"Accept-Language":"de"}"#
        #expect(try pictures(setting, users, [members, members]) == [tile(251), tile(251)])
        #expect(setting.origin.requests.count == 1)
        #expect(try setting.broker.stats()[.coalesced] == 1)
    }

    @Test func cacheKeysArePerUser() throws {
        let setting = try changingOrigin(holds: false)
        let users = try [ann, bob].map { try setting.client(as: $0) }
        let first = try users[0].load(setting.url("/a?sign=1"), #""cacheKey":"k""#)
        let second = try users[0].load(setting.url("/a?sign=2"), #""cacheKey":"k""#)
        #expect(try second.image().source == .memory)
        #expect(try users[0].picture(second) == users[0].picture(first))
        #expect(try users[1].load(setting.url("/a?sign=1"), #""cacheKey":"k""#).image().source == .network)
        #expect(try users[0].load(setting.url("/a?sign=1")).image().source == .network)
    }

    @Test func privateResponsesAreNotShared() throws {
        let setting = try changingOrigin(caching: "private, max-age=600")
        let users = try [ann, ann, bob].map { try setting.client(as: $0) }
        let url = setting.url("/a")
        let pictures = try pictures(setting, users)
        #expect(pictures[0] == pictures[1] && pictures[0] != pictures[2])
        for (user, picture) in zip(users, pictures) { #expect(try user.loaded(url) == (picture, .memory)) }
        #expect(setting.origin.requests.count == 2)
        #expect(try setting.client().load(url).image().source == .network)
    }

    /// A 304 turns the shared entry private; the user who received it loads a private one.
    @Test func entryThatBecomesPrivateIsNoLongerShared() throws {
        let setting = try Setting { request in
            .resource(
                tile(7).png, etag: "\"1\"", cacheControl: request.number == 1 ? "max-age=0" : "private, max-age=600",
                contentType: "image/png", for: request)
        }
        let users = try [ann, bob].map { try setting.client(as: $0) }
        for (user, count) in [(0, 1), (0, 3), (0, 3), (1, 4), (1, 4), (0, 4)] {
            #expect(try users[user].picture(of: setting.url("/a")) == tile(7))
            #expect(setting.origin.requests.count == count)
        }
    }

    @Test func uncacheableResponsesAreNotShared() throws {
        let setting = try changingOrigin(caching: "no-store")
        let users = try [ann, bob].map { try setting.client(as: $0) }
        let pictures = try pictures(setting, users)
        #expect(pictures[0] != pictures[1])
        #expect(setting.origin.requests.count == 2)
        #expect(try users[0].load(setting.url("/a")).image().source == .network)
    }

    @Test func cookiesArePerUserAndOptIn() throws {
        let setting = try Setting { request in
            var response = png(tile(request.number))
            response.headers.append(.init("Cache-Control", "no-store"))
            if request.path == "/login" { response.headers.append(.init("Set-Cookie", "id=\(request.query); Path=/")) }
            return response
        }
        let (first, second) = (try setting.client(as: ann), try setting.client(as: bob))
        _ = try first.load(setting.url("/login?ann"), #""cookies":true"#)
        // Without `cookies` the jar is neither read nor written.
        _ = try second.load(setting.url("/login?bob"))
        for (client, members) in [(second, #""cookies":true"#), (first, ""), (first, #""cookies":true"#)] {
            _ = try client.load(setting.url("/a"), members)
        }
        _ = try second.load(setting.url("/login?bob"), #""cookies":true"#)
        _ = try second.load(setting.url("/a"), #""cookies":true"#)
        // The jar belongs to the user, not to the connection.
        _ = try setting.client(as: ann).load(setting.url("/a"), #""cookies":true"#)
        #expect(setting.origin.requests("/a").map { $0["Cookie"] } == [nil, nil, "id=ann", "id=bob", "id=ann"])
    }

    @Test func uploadsArePrivateAndTakePrecedence() throws {
        let setting = try changingOrigin(holds: false)
        let (first, second, root) = (
            try setting.client(as: ann), try setting.client(as: bob), try setting.client()
        )
        let url = setting.url("/a")
        #expect(try first.store(url, tile(1).png).isOK)
        #expect(try first.picture(of: url) == tile(1))
        #expect(try second.picture(of: url) == tile(251))
        // An administrator's upload is for all users but those with an upload of their own.
        #expect(try root.store(url, tile(2).png).isOK)
        #expect(try second.picture(of: url) == tile(2))
        #expect(try root.picture(of: url) == tile(2))
        #expect(try first.picture(of: url) == tile(1))
        #expect(setting.origin.requests.count == 1)
        let other = try setting.client(as: ann)
        #expect(try other.picture(of: url) == tile(1))
    }

    @Test(arguments: [false, true])
    func uploadsOnDiskArePrivateAndTakePrecedence(overSharedEntryInMemory: Bool) throws {
        let setting = try DiskSetting { request in png(tile(request.number * 251)) }
        try setting.wait(for: .on)
        let url = setting.url(1)
        let client = try setting.broker.client(as: ann)
        #expect(try client.store(url, tile(1).png).isOK)
        try eventually("the original is on disk") { try setting.isOnDisk(url, for: client) }
        client.close()
        try setting.restartUntilReady()
        let (first, second) = (try setting.broker.client(as: ann), try setting.broker.client(as: bob))
        #expect(try second.ask("query", #""url":"\#(url)""#).fields["disk"] as? Bool == false)
        if overSharedEntryInMemory { #expect(try second.picture(of: url) == tile(251)) }
        #expect(try first.loaded(url) == (tile(1), .disk))
        #expect(try second.picture(of: url) == tile(251))
        #expect(try first.picture(of: url) == tile(1))
    }

    @Test func removeCoversOwnAndSharedEntries() throws {
        let setting = try changingOrigin(holds: false)
        let (first, second) = (try setting.client(as: ann), try setting.client(as: bob))
        let url = setting.url("/a")
        _ = try second.load(url)
        #expect(try first.store(url, tile(1).png).isOK)
        #expect(try second.store(url, tile(2).png).isOK)
        _ = try second.load(url, #""cookies":true"#)
        #expect(try first.remove(url) == 2)
        #expect(try second.picture(of: url) == tile(2))
        #expect(try second.load(url, #""cookies":true"#).image().source == .memory)
        #expect(try first.load(url).image().source == .network)
        // An administrator removes the entries of all users.
        let root = try setting.client()
        #expect(try root.remove(url) == 3)
        #expect(try second.load(url).image().source == .network)
    }

    @Test func removeLeavesOthersEntriesOnDisk() throws {
        let setting = try DiskSetting { request in png(tile(request.number * 251)) }
        try setting.wait(for: .on)
        let url = setting.url(1)
        for uid in [ann, bob] {
            let client = try setting.broker.client(as: uid)
            #expect(try client.store(url, tile(Int(uid)).png).isOK)
            try eventually("the original is on disk") { try setting.isOnDisk(url, for: client) }
        }
        try setting.restartUntilReady()
        #expect(try setting.broker.client(as: ann).remove(url) == 1)
        let (first, second) = (try setting.broker.client(as: ann), try setting.broker.client(as: bob))
        #expect(try first.failure(url, #""cache":"only-if-cached""#).code == .notCached)
        #expect(try second.picture(of: url, #""cache":"only-if-cached""#) == tile(Int(bob)))
    }

    @Test func queriesRevealNothingOfOthers() throws {
        let setting = try DiskSetting { request in png(tile(request.number * 251)) }
        try setting.wait(for: .on)
        let url = setting.url(1)
        func query(_ uid: UInt32, _ members: String = "") throws -> [Bool?] {
            try setting.broker.client(as: uid).query(url, members)
        }
        let first = try setting.broker.client(as: ann)
        #expect(try first.store(url, tile(1).png).isOK)
        _ = try first.load(url)
        _ = try first.load(url, #""cookies":true"#)
        try eventually("both originals are on disk") {
            try ["", #","cookies":true"#].allSatisfy { try query(ann, $0)[1] == true }
        }
        for members in ["", #","cookies":true"#] {
            #expect(try query(ann, members) == [true, true, true])
            #expect(try query(bob, members) == [false, false, false])
            #expect(try query(0, members) == [false, false, false])
        }
        #expect(try setting.broker.client(as: bob).failure(url, #""cache":"only-if-cached""#).code == .notCached)
    }

    @Test func ordinaryUsersMayNotAdministrate() throws {
        let setting = try changingOrigin(holds: false)
        let client = try setting.client(as: ann)
        for (type, members) in [
            ("clear", #""tier":"memory""#), ("failed", #""action":"list""#), ("failed", #""action":"clear""#),
            ("suspend", ""), ("resume", ""), ("cancelAll", ""), ("reload", ""), ("upgrade", ""),
        ] { #expect(try client.ask(type, members).error?.code == .forbidden, "\(type)") }
        #expect(try client.load(setting.url("/a")).image().source == .network)
        #expect(try setting.broker.stats().failures == [.forbidden: 8])
    }

    @Test func eventsCoverOwnRequestsOnly() throws {
        let setting = try changingOrigin(["--memory-limit", "8M"], holds: false)
        let (first, second, root) = (
            try setting.client(as: ann), try setting.client(as: bob), try setting.client()
        )
        let all = #""events":["started","responded","finished","failed","evicted","worker"]"#
        for client in [first, root] { #expect(try client.ask("subscribe", all).isOK) }
        for path in ["/1", "/2"] { _ = try second.load(setting.url(path)) }
        #expect(try second.store(setting.url("/3"), tile(3).png).isOK)
        _ = try first.load(setting.url("/4"))
        let isLast = { (event: BrokerEvent) in event.name == .finished && event.url == setting.url("/4") }
        #expect(Set(try first.events(until: isLast).map(\.url)) == [setting.url("/4")])
        let seen = try root.events(until: isLast).filter { $0.name == .finished }.map(\.url)
        #expect(seen == ["/1", "/2", "/4"].map { setting.url($0) })
        // Both waiters of a shared download receive its events.
        #expect(try first.nextIfThere() == nil)
    }
}
