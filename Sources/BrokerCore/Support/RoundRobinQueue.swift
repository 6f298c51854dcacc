/// The jobs of one priority: those at the front first, then those of the clients by round-robin. A job may be set aside for
/// a while; it still counts as waiting, and its client keeps its turn.
struct RoundRobinQueue {
    /// The properties that decide a job's place.
    struct Standing {
        /// The owner; nil is scheduled as one more client.
        let client: ClientID?
        /// The lowest rank comes first among the client's jobs, and among those at the front.
        let rank: Int
        /// Whether it comes before the round-robin.
        let isFront: Bool
    }

    /// A job's entry in a heap. It is valid only while the job has this ticket: a job that is set aside loses it.
    private struct Ticket: Equatable {
        let job: JobID
        let number: Int
    }

    private struct Place {
        let standing: Standing
        /// Nil while it is set aside.
        var ticket: Ticket?
    }

    private struct Client {
        /// The client with the lowest turn is next.
        var turn: Int
        /// The number of its jobs, those set aside included.
        var waiting = 0
        /// The number of its jobs that are not set aside.
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

    /// The number of jobs, those set aside included.
    var count: Int { places.count }
    var isEmpty: Bool { places.isEmpty }

    /// Adds a job.
    mutating func insert(_ job: JobID, _ standing: Standing) {
        places[job] = Place(standing: standing)
        if !standing.isFront {
            if clients[standing.client] == nil { clients[standing.client] = Client(turn: nextTurn()) }
            clients[standing.client]?.waiting += 1
        }
        bringBack(job)
    }

    /// Puts a job that was set aside back in its place.
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

    /// Sets a job aside.
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

    /// Removes a job.
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

    /// Removes a job that is started now, whose client's turn then comes last. A job at the front had its turn when it was
    /// first started.
    mutating func serve(_ job: JobID) {
        let standing = places[job]?.standing
        remove(job)
        guard let standing, !standing.isFront, clients[standing.client] != nil else { return }
        let turn = nextTurn()
        clients[standing.client]?.turn = turn
        clients[standing.client]?.hasTurn = false
        if clients[standing.client]?.inLine != 0 { queueUp(standing.client) }
    }

    /// The next job, which stays in the queue.
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
