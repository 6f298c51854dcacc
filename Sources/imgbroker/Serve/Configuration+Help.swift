extension Configuration {
    static let usage = """
        Usage: imgbroker [OPTION]...               serve images to the processes of this machine
               imgbroker get URL [OPTION]...       load one image through the broker
               imgbroker ctl COMMAND [OPTION]...   look after a running broker

        The socket, and who may do what:
          --socket PATH           listen at PATH (default: $IMGBROKER_SOCKET, /run/imgbroker.sock
                                  where that may be written, else $XDG_RUNTIME_DIR/imgbroker.sock)
          --socket-mode OCTAL     the socket's mode (default: 0600; 0660 when root starts the
                                  broker or a group is named)
          --socket-group NAME     the socket's group, whose members may use the broker
          --admin-group NAME      a group whose members may also use the commands of imgbroker ctl
                                  that are for administrators; root and the broker's user may always
          --user NAME             serve as this user; workers run as it, else as nobody,
                                  when root starts the broker

        Work and limits:
          --workers N             decode workers (default: one per core)
          --fetchers N            download workers (default: 1)
          --queue-order ORDER     the order of a client's waiting jobs: fifo, the oldest first
                                  (default), or lifo, the latest first
          --memory-limit SIZE     decoded images kept in memory (default: 512M)
          --worker-memory SIZE    memory that decoding one image may take, its result included;
                                  larger images are refused (default: 1G)
          --decode-time TIME      processor time that decoding one image may take (default: 10)
          --decode-deadline TIME  elapsed time that it may take (default: 20)
          --max-pixels N          pixels of the largest result (default: 50M)
          --max-source-pixels N   pixels of the largest source that is scaled down (default: 300M)
          --scale-down-limit SIZE the size that "scaleDown" keeps images below (default: 60M)

        Downloads:
          --max-download SIZE     largest body that is downloaded (default: 32M)
          --max-file SIZE         largest local file that is read (default: 256M)
          --allow-address CIDR    let downloads reach these addresses too, e.g. 127.0.0.0/8
                                  (repeatable; default: globally routable addresses only)
          --proxy URL             load everything through this proxy (http, https or socks5h);
                                  the proxy then enforces which addresses may be reached
          --allow-invalid-certificates
                                  let requests ask for a server's certificate not to be verified
          --min-speed SIZE        give up a body that brings fewer bytes a second for 30 s;
                                  0 for never (default: 1K)
          --retries N             retries of a failed transfer, 0 to 5 (default: 1); with 0 a request is sent once

        Freshness:
          --min-ttl TIME          the least time that a response is fresh (default: 0)
          --max-ttl TIME          the longest time that it is fresh (default: 30d)
          --stale-while-revalidate TIME
                                  serve a stale response for this long while it is revalidated,
                                  unless the response states a time (default: 0)
          --stale-if-error TIME   serve a stale response for this long when the origin fails,
                                  unless the response states a time (default: 0)

        The disk cache:
          --cache-dir DIR         its directory (default: /var/cache/imgbroker for root, else
                                  $XDG_CACHE_HOME/imgbroker or ~/.cache/imgbroker)
          --disk-limit SIZE       originals kept on disk; 0 for no disk cache (default: 4G)
          --raster-limit SIZE     scaled images kept on disk in addition (default: 1G)
          --max-age TIME          entries unused for this long are removed; negative for never
                                  (default: 7d)
          --extra-cache-dir DIR   another broker's disk cache, to read only (repeatable)

        Other:
          --allow-unsandboxed     run workers although the kernel lacks seccomp or Landlock
          --strict-sandbox        kill a worker at any unexpected system call, instead of refusing
                                  the call: for tests
          --log-level LEVEL       error, warning, notice, info or debug (default: notice)
          --help                  show this and exit
          --formats [--json]      show the decoded formats and their libraries, and exit
          --version               show the version and exit

        Sizes take K, M and G; times are seconds, or take m, h and d (90, 30m, 12h, 7d).
        See also: imgbroker get --help, imgbroker ctl --help.
        """
}
