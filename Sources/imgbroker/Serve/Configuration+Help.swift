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
          --queue-order ORDER     which of a client's waiting jobs goes first: fifo, the oldest
                                  (default), or lifo, the latest
          --memory-limit SIZE     decoded pictures kept in memory (default: 512M)
          --worker-memory SIZE    memory that decoding one picture may take, what is made of it
                                  included; larger pictures are refused (default: 1G)
          --decode-time TIME      processor time that decoding one picture may take (default: 10)
          --decode-deadline TIME  what it may take by the clock (default: 20)
          --max-pixels N          largest picture that is made (default: 50M)
          --max-source-pixels N   largest picture that is scaled down (default: 300M)
          --scale-down-limit SIZE what "scaleDown" brings pictures under (default: 60M)

        Downloads:
          --max-download SIZE     largest body that is downloaded (default: 32M)
          --allow-address CIDR    let downloads reach these addresses too, e.g. 127.0.0.0/8
                                  (repeatable; default: globally routable addresses only)
          --proxy URL             load everything through this proxy (http, https or socks5h);
                                  which addresses may be reached is then for the proxy to enforce
          --allow-invalid-certificates
                                  let requests ask for a server's certificate not to be verified
          --min-speed SIZE        give up a body that brings fewer bytes a second for 30 s;
                                  0 for never (default: 1K)
          --retries N             how often a failed transfer is tried again, 0 to 5 (default: 1)

        How long answers are good:
          --min-ttl TIME          fresh for at least so long (default: 0)
          --max-ttl TIME          and for at most so long (default: 30d)
          --stale-while-revalidate TIME
                                  serve what is stale for so long while it is revalidated, where
                                  the response does not say (default: 0)
          --stale-if-error TIME   serve what is stale for so long when the origin fails, where the
                                  response does not say (default: 0)

        The disk cache:
          --cache-dir DIR         where it is (default: /var/cache/imgbroker for root, else
                                  $XDG_CACHE_HOME/imgbroker or ~/.cache/imgbroker)
          --disk-limit SIZE       originals kept on disk; 0 for no disk cache (default: 4G)
          --raster-limit SIZE     scaled pictures kept on disk beside them (default: 1G)
          --max-age TIME          what was not used for so long leaves the disk; negative for
                                  never (default: 7d)
          --extra-cache-dir DIR   another broker's disk cache to look into, and never to write
                                  (repeatable)

        Other:
          --allow-unsandboxed     let workers work though the kernel has no seccomp or no Landlock
          --strict-sandbox        end a worker at any system call that is not foreseen, instead of
                                  refusing the call: for tests
          --log-level LEVEL       error, warning, notice, info or debug (default: notice)
          --help                  show this and exit
          --formats [--json]      show which formats are decoded, by which libraries, and exit
          --version               show the version and exit

        Sizes take K, M and G; times are seconds, or take m, h and d (90, 30m, 12h, 7d).
        See also: imgbroker get --help, imgbroker ctl --help.
        """
}
