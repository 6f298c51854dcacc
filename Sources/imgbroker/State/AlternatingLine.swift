/// Jobs of one priority: those at the front first, then one of each client in turn. A job may stand aside for a while;
/// it counts as waiting all the same, and its client keeps its turn.
struct AlternatingLine {
    /// What a job's place in line depends on.
    struct Standing {
        /// For whom it is; one of nobody alternates with the clients as if it were another.
        let client: ClientID?
        /// Among the jobs of its client, or of those at the front, the lowest rank comes first.
        let rank: Int
        /// Whether it comes before all who take turns.
        let isFront: Bool
    }

    /// A job's name in a heap. It is good only while the job has this ticket: whoever steps out of line loses it.
    private struct Ticket: Equatable {
        let job: JobID
        let number: Int
    }

    private struct Place {
        let standing: Standing
        /// Nil while it stands aside.
        var ticket: Ticket?
    }

    private struct Client {
        /// The client with the lowest is next.
        var turn: Int
        /// How many jobs it has, those that stand aside included.
        var waiting = 0
        /// How many of them are in line.
        var inLine = 0
        /// Whether `turns` has an entry for it with this turn.
        var hasTurn = false
        var tickets = MinHeap<Int, Ticket>()
    }

    private var places: [JobID: Place] = [:]
    private var front = MinHeap<Int, Ticket>()
    private var inFront = 0
    private var clients: [ClientID?: Client] = [:]
    private var turns = MinHeap<Int, ClientID?>()
    private var lastTicket = 0
    private var lastTurn = 0

    /// Jobs that wait, those that stand aside included.
    var count: Int { places.count }
    var isEmpty: Bool { places.isEmpty }

    /// Puts a job in line.
    mutating func insert(_ job: JobID, _ standing: Standing) {
        places[job] = Place(standing: standing)
        if !standing.isFront {
            if clients[standing.client] == nil { clients[standing.client] = Client(turn: nextTurn()) }
            clients[standing.client]?.waiting += 1
        }
        bringBack(job)
    }

    /// Puts a job that stands aside back in line, where it stood.
    mutating func bringBack(_ job: JobID) {
        guard let place = places[job], place.ticket == nil else { return }
        lastTicket += 1
        let ticket = Ticket(job: job, number: lastTicket)
        places[job]?.ticket = ticket
        let standing = place.standing
        if standing.isFront {
            front.insert(ticket, key: standing.rank)
            inFront += 1
        } else {
            clients[standing.client]?.tickets.insert(ticket, key: standing.rank)
            clients[standing.client]?.inLine += 1
            queueUp(standing.client)
        }
    }

    /// Lets a job stand aside.
    mutating func setAside(_ job: JobID) {
        guard let place = places[job], place.ticket != nil else { return }
        places[job]?.ticket = nil
        let places = places
        if place.standing.isFront {
            inFront -= 1
            front.sweep(live: inFront) { places[$1.job]?.ticket == $1 }
        } else if let inLine = clients[place.standing.client]?.inLine {
            clients[place.standing.client]?.inLine = inLine - 1
            clients[place.standing.client]?.tickets.sweep(live: inLine - 1) { places[$1.job]?.ticket == $1 }
        }
    }

    /// Takes a job out.
    mutating func remove(_ job: JobID) {
        setAside(job)
        guard let standing = places.removeValue(forKey: job)?.standing, !standing.isFront,
            let waiting = clients[standing.client]?.waiting
        else { return }
        clients[standing.client]?.waiting = waiting - 1
        guard waiting == 1 else { return }
        clients[standing.client] = nil
        let clients = clients
        turns.sweep(live: clients.count) { clients[$1]?.turn == $0 }
    }

    /// Takes a job out because it is served now: its client is then the last of all. One at the front had its turn when
    /// it was begun.
    mutating func serve(_ job: JobID) {
        let standing = places[job]?.standing
        remove(job)
        guard let standing, !standing.isFront, clients[standing.client] != nil else { return }
        let turn = nextTurn()
        clients[standing.client]?.turn = turn
        clients[standing.client]?.hasTurn = false
        if clients[standing.client]?.inLine != 0 { queueUp(standing.client) }
    }

    /// The next job, left where it is.
    mutating func first() -> JobID? {
        while let ticket = front.first?.value {
            if places[ticket.job]?.ticket == ticket { return ticket.job }
            front.popFirst()
        }
        while let (turn, client) = turns.first {
            if clients[client]?.turn == turn {
                while let ticket = clients[client]?.tickets.first?.value {
                    if places[ticket.job]?.ticket == ticket { return ticket.job }
                    clients[client]?.tickets.popFirst()
                }
                clients[client]?.hasTurn = false
            }
            turns.popFirst()
        }
        return nil
    }

    private mutating func queueUp(_ client: ClientID?) {
        guard let known = clients[client], !known.hasTurn else { return }
        clients[client]?.hasTurn = true
        turns.insert(client, key: known.turn)
    }

    private mutating func nextTurn() -> Int {
        lastTurn += 1
        return lastTurn
    }
}
