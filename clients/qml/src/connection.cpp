#include "connection.h"

#include <QCoreApplication>
#include <QFile>
#include <QPointer>
#include <QSocketNotifier>
#include <QUrl>

ImagePointer pointerTo(imgbroker_image *image) {
    return ImagePointer(image, imgbroker_image_release);
}

/// Returns the format of an image. Requests state BGRA, but a preset has a format of its own.
static QImage::Format formatOf(const imgbroker_image &image) {
    const bool isStraight = image.alpha == IMGBROKER_STRAIGHT;
    switch (image.format) {
    case IMGBROKER_BGRA8:
        // BGRA in memory is 0xAARRGGBB in a little-endian word, which all platforms of imgbroker have.
        return isStraight ? QImage::Format_ARGB32 : QImage::Format_ARGB32_Premultiplied;
    case IMGBROKER_RGBA8:
        return isStraight ? QImage::Format_RGBA8888 : QImage::Format_RGBA8888_Premultiplied;
    case IMGBROKER_RGB8:
        return QImage::Format_RGB888;
    case IMGBROKER_GRAY8:
        return QImage::Format_Grayscale8;
    default:
        return QImage::Format_Invalid;
    }
}

QImage imageOf(const ImagePointer &image, size_t frame) {
    if (!image || image->width == 0 || image->height == 0 || image->pixels == nullptr) return {};
    const size_t offset = frame < image->frame_count ? image->frames[frame].offset : 0;
    const QImage::Format format = formatOf(*image);
    if (format == QImage::Format_Invalid) return {};
    return QImage(
        image->pixels + offset, int(image->width), int(image->height), qsizetype(image->stride), format,
        [](void *reference) { delete static_cast<ImagePointer *>(reference); }, new ImagePointer(image));
}

static bool fail(imgbroker_error *error, imgbroker_code code, const QString &message) {
    *error = {};
    error->code = code;
    error->retry_after_ms = -1;
    qstrncpy(error->message, message.toUtf8().constData(), sizeof error->message);
    return false;
}

bool Query::setSource(const QString &source, const QUrl &base, imgbroker_error *error) {
    const auto starts = [&source](const char *prefix) {
        return source.startsWith(QLatin1String(prefix), Qt::CaseInsensitive);
    };
    // QUrl spells some URLs anew ("{" as "%7B"), so that the origin would see another URL than from other clients.
    if (starts("http:") || starts("https:") || starts("data:")) {
        url = source.toUtf8();
        return true;
    }
    if (source.startsWith(QLatin1Char('/'))) {
        path = QFile::encodeName(source);
        return true;
    }
    QUrl parsed(source);
    if (parsed.isRelative() && base.isValid()) parsed = base.resolved(parsed);
    if (parsed.scheme() == QLatin1String("http") || parsed.scheme() == QLatin1String("https")) {
        url = parsed.toEncoded();
        return true;
    }
    if (parsed.isLocalFile()) {
        path = QFile::encodeName(parsed.toLocalFile());
        return true;
    }
    if (parsed.scheme() == QLatin1String("qrc")) {
        QFile file(QLatin1Char(':') + parsed.path());
        if (!file.open(QIODevice::ReadOnly)) {
            return fail(error, IMGBROKER_ERROR_FILE, parsed.toString() + QLatin1String(": ") + file.errorString());
        }
        data = file.readAll();
        return true;
    }
    return fail(error, IMGBROKER_ERROR_UNSUPPORTED_SCHEME, QLatin1String("the source is no URL or file: ") + source);
}

static QPointer<Connection> connection;

Connection *Connection::shared() {
    if (!connection && QCoreApplication::instance() != nullptr && !QCoreApplication::closingDown()) {
        connection = new Connection(QCoreApplication::instance());
    }
    return connection;
}

Connection::Connection(QObject *parent) : QObject(parent) {}

Connection::~Connection() {
    // It must not watch a descriptor that has been closed.
    delete m_notifier;
    imgbroker_close(m_broker);
    qDeleteAll(m_requests);
}

bool Connection::open(imgbroker_error *error) {
    if (m_broker != nullptr) return true;
    imgbroker_settings settings = {};
    settings.client = "imgbroker-qml/" IMGBROKER_VERSION;
    m_broker = imgbroker_open(&settings, error);
    if (m_broker == nullptr) return false;
    m_notifier = new QSocketNotifier(imgbroker_fd(m_broker), QSocketNotifier::Read, this);
    connect(m_notifier, &QSocketNotifier::activated, this, [this] {
        imgbroker_process(m_broker);
        dispatch();
    });
    return true;
}

ImagePointer Connection::kept(const Query &query) {
    if (m_broker == nullptr || query.url.isEmpty()) return nullptr;
    imgbroker_image *image = imgbroker_get_kept(m_broker, query.url.constData(), &query.options);
    return image != nullptr ? pointerTo(image) : nullptr;
}

Request *Connection::send(
    const Query &query, std::function<void(imgbroker_reply &)> handler, imgbroker_error *error) {
    if (!open(error)) return nullptr;
    auto request = std::make_unique<Request>();
    imgbroker_request message = {};
    message.kind = IMGBROKER_GET;
    message.url = query.url.isEmpty() ? nullptr : query.url.constData();
    message.path = query.path.isEmpty() ? nullptr : query.path.constData();
    message.descriptor = -1;
    if (message.url == nullptr && message.path == nullptr) {
        message.data = query.data.constData();
        message.size = size_t(query.data.size());
    }
    message.options = &query.options;
    message.user = request.get();
    request->number = imgbroker_send(m_broker, &message, error);
    if (request->number == 0) return nullptr;
    request->handler = std::move(handler);
    m_requests.insert(request.get());
    return request.release();
}

void Connection::cancel(Request *request) {
    if (request == nullptr || !connection) return;
    request->handler = nullptr;
    imgbroker_cancel(connection->m_broker, request->number);
}

void Connection::update(const Request *request, imgbroker_priority priority) {
    imgbroker_update(m_broker, request->number, priority, false);
}

void Connection::dispatch() {
    imgbroker_reply reply;
    while (m_broker != nullptr && imgbroker_next(m_broker, &reply)) {
        auto *request = static_cast<Request *>(reply.user);
        // The handler may cancel its request, which would destroy the function that runs.
        const auto handler = request->handler;
        if (reply.final) {
            m_requests.remove(request);
            delete request;
        }
        if (handler) handler(reply);
        imgbroker_reply_clear(&reply);
    }
}
