/// Jobs by round-robin among clients, then by rank. One that is set aside counts, and its client keeps its turn.
struct RoundRobinQueue {
    /// The properties that decide a job's place.
    struct Standing {
        /// The owner; 0, which no client has, for jobs of none.
        let client: ClientID
        /// The lowest rank comes first among the client's jobs.
        let rank: Int

        init(client: ClientID?, rank: Int) {
            (self.client, self.rank) = (client ?? ClientID(number: 0), rank)
        }
    }

    /// A job's entry in a heap. It is valid only while the job has this ticket: a job that is set aside loses it.
    private struct Ticket: Equatable {
        let job: JobID
        let number: Int
    }

    private struct Client {
        /// The number of its jobs, those set aside included.
        var waiting = 0
        /// The number of its jobs that are not set aside.
        var inLine = 0
        var tickets = MinHeap<Int, Ticket>()
    }

    /// A job has no ticket while it is set aside.
    private var places: [JobID: (standing: Standing, ticket: Ticket?)] = [:]
    private var clients: [ClientID: Client] = [:]
    private var turns = TurnOrder<ClientID>()
    private var lastTicket = 0
    /// The number of jobs that are not set aside.
    private(set) var inLine = 0

    /// The number of jobs, those set aside included.
    var count: Int { places.count }
    var isEmpty: Bool { places.isEmpty }
    var jobs: some Sequence<JobID> { places.keys }

    mutating func insert(_ job: JobID, _ standing: Standing) {
        places[job] = (standing, nil)
        clients.change(standing.client, default: Client()) { $0.waiting += 1 }
        bringBack(job)
    }

    mutating func bringBack(_ job: JobID) {
        guard let place = places[job], place.ticket == nil else { return }
        lastTicket += 1
        let ticket = Ticket(job: job, number: lastTicket)
        places.change(job) { $0.ticket = ticket }
        inLine += 1
        clients.change(place.standing.client) {
            $0.inLine += 1
            $0.tickets.insert(ticket, key: place.standing.rank)
        }
        turns.enter(place.standing.client)
    }

    mutating func setAside(_ job: JobID) {
        guard let place = places[job], place.ticket != nil else { return }
        places.change(job) { $0.ticket = nil }
        inLine -= 1
        let places = places
        clients.change(place.standing.client) {
            $0.inLine -= 1
            $0.tickets.sweep(live: $0.inLine) { places[$1.job]?.ticket == $1 }
        }
    }

    mutating func remove(_ job: JobID) {
        setAside(job)
        guard let client = places.removeValue(forKey: job)?.standing.client else { return }
        let waiting = clients.change(client) {
            $0.waiting -= 1
            return $0.waiting
        }
        guard waiting == 0 else { return }
        clients[client] = nil
        turns.remove(client)
    }

    /// Removes a job that is started now, whose client's turn then comes last.
    mutating func serve(_ job: JobID) {
        let standing = places[job]?.standing
        remove(job)
        if let standing { turns.moveToEnd(standing.client) }
    }

    mutating func first() -> JobID? {
        while let client = turns.first() {
            while let ticket = clients[client]?.tickets.first?.value {
                if places[ticket.job]?.ticket == ticket { return ticket.job }
                clients.change(client) { $0.tickets.popFirst() }
            }
            turns.pauseFirst()
        }
        return nil
    }
}
