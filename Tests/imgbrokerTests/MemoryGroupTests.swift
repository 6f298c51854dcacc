/// The control group in the files of `/proc`, as they are on hosts and in containers.
struct MemoryGroupTests {
    private static func group(_ files: [String: String]) -> MemoryGroup? { MemoryGroup { files[$0] } }
    private static let own = "/proc/self/cgroup"
    private static let mounts = "/proc/self/mountinfo"
    private static let newMount = "30 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
    private static let kills = "low 0\noom 3\noom_kill 2\n"

    @Test func `a service of version 2 has the least limit above it`() {
        let group = Self.group([
            Self.own: "0::/system.slice/imgbroker.service\n", Self.mounts: Self.newMount,
            "/sys/fs/cgroup/system.slice/imgbroker.service/memory.events": Self.kills,
            "/sys/fs/cgroup/system.slice/imgbroker.service/memory.max": "max\n",
            "/sys/fs/cgroup/system.slice/imgbroker.service/memory.high": "500000000\n",
            "/sys/fs/cgroup/system.slice/memory.max": "400000000\n",
        ])
        #expect(group?.limit == 400_000_000)
        #expect(group?.killsPath == "/sys/fs/cgroup/system.slice/imgbroker.service/memory.events")
        #expect(group?.pressurePath == "/sys/fs/cgroup/system.slice/imgbroker.service/memory.pressure")
    }

    @Test func `a container of version 2 sees its own group as the root`() {
        let group = Self.group([
            Self.own: "0::/\n", Self.mounts: Self.newMount, "/sys/fs/cgroup/memory.events": Self.kills,
            "/sys/fs/cgroup/memory.max": "272629760\n",
        ])
        #expect(group?.limit == 260 << 20)
    }

    @Test func `a container of version 1 sees its own group at the mount point`() {
        let old = "40 35 0:35 /docker/4711 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        for path in ["/docker/4711", "/../4711"] {
            let group = Self.group([
                Self.own: "4:memory:\(path)\n0::/\n",
                Self.mounts: "39 35 0:34 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" + old,
                "/sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
            ])
            #expect(group?.limit == 256 << 20)
            #expect(group?.killsPath == "/sys/fs/cgroup/memory/memory.oom_control")
            #expect(group?.pressurePath == nil)
        }
    }

    @Test func `without a limit, a controller or a mount there is none`() {
        let unlimited = Self.group([
            Self.own: "4:memory:/a\n",
            Self.mounts: "40 35 0:35 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n",
            "/sys/fs/cgroup/memory/a/memory.oom_control": Self.kills,
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
        ])
        #expect(unlimited != nil && unlimited?.limit == nil)
        #expect(Self.group([Self.own: "0::/\n", Self.mounts: Self.newMount]) == nil)
        #expect(Self.group([Self.own: "0::/a\n", Self.mounts: ""]) == nil)
        #expect(Self.group([:]) == nil)
    }

    /// Where the kernel reports pressure at all, a trigger can be set by any user.
    @Test(.enabled(if: CurrentProcess.exists("/proc/pressure/memory"))) func `a trigger for pressure can be set`()
        throws
    {
        let pressure = try #require(MemoryPressure(of: nil))
        let queue = try EventQueue()
        try queue.add(pressure, token: 1)
        _ = try queue.wait(milliseconds: 0)
    }
}
