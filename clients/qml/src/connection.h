#ifndef IMGBROKER_QML_CONNECTION_H
#define IMGBROKER_QML_CONNECTION_H

#include <QImage>
#include <QObject>
#include <QSet>

#include <functional>
#include <memory>

#include <imgbroker.h>

QT_BEGIN_NAMESPACE
class QSocketNotifier;
QT_END_NAMESPACE

/// A reference to an image of the broker. Any thread may release it.
using ImagePointer = std::shared_ptr<imgbroker_image>;

/// Takes over a reference.
ImagePointer pointerTo(imgbroker_image *image);

/// Returns an image, or a frame of an animation, as a QImage over the broker's pages: no pixel is copied, and the pages stay mapped
/// until the last copy of the QImage is destroyed. Null if the image has no pixels.
QImage imageOf(const ImagePointer &image, size_t frame = 0);

/// A request in flight. It outlives its owner, because its final reply also comes after it was cancelled.
struct Request {
    uint64_t number = 0;
    /// Empty after it was cancelled.
    std::function<void(imgbroker_reply &)> handler;
};

/// The text of a request, which `request` and `options` point to.
struct Query {
    /// Sets the source: a URL (http, https, data, file, qrc) or the path of a local file. Returns false, and an error, if it is neither.
    bool setSource(const QString &source, const QUrl &base, imgbroker_error *error);

    /// Whether the source is of an origin, which the broker may ask whether it has changed.
    bool isRemote() const { return qstrnicmp(url.constData(), "http", 4) == 0; }

    QByteArray url, path, data, steps, preset;
    imgbroker_options options = {};
};

/// The connection of the process, for the GUI thread.
class Connection : public QObject {
    Q_OBJECT

public:
    /// Returns the connection, which is opened with the first request; null while the application ends.
    static Connection *shared();

    ~Connection() override;

    /// Returns the image if it is kept and valid, without a message to the broker; otherwise null.
    ImagePointer kept(const Query &query);

    /// Sends a request. `handler` is called for each reply, and may take its image. Returns null and an error if it cannot be sent.
    Request *send(const Query &query, std::function<void(imgbroker_reply &)> handler, imgbroker_error *error);

    /// Cancels a request: its handler is not called again. Does nothing if the connection was closed meanwhile.
    static void cancel(Request *request);

    /// Changes the priority of a request.
    void update(const Request *request, imgbroker_priority priority);

    /// Hands over the replies that have been received.
    void dispatch();

private:
    explicit Connection(QObject *parent);

    bool open(imgbroker_error *error);

    imgbroker *m_broker = nullptr;
    QSocketNotifier *m_notifier = nullptr;
    QSet<Request *> m_requests;
};

#endif
