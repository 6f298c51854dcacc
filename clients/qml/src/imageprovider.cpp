#include "imageprovider.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <QUrl>

#include "connection.h"

namespace {

/// Returns the source in the text after `image://imgbroker/`.
///
/// Qt has decoded percent sequences for readers in it ("%20", and all beyond ASCII), but none of a reserved character or of "%".
QString sourceOf(const QString &id) {
    static const QRegularExpression encoded(
        QStringLiteral("^(https?|data|file|qrc)%3A|^%2F"), QRegularExpression::CaseInsensitiveOption);
    const QString source = encoded.match(id).hasMatch() ? QUrl::fromPercentEncoding(id.toUtf8()) : id;
    if (source != id || source.startsWith(QLatin1Char('/')) || source.startsWith(QLatin1String("data:"))) return source;
    return QString::fromLatin1(QUrl(source).toEncoded());
}

/// A request of an Image. It lives in the GUI thread, which has the connection.
class Job : public QObject {
    Q_OBJECT

public:
    Job(const QString &id, const QSize &size) : m_id(id), m_size(size) {
        moveToThread(QCoreApplication::instance()->thread());
    }

    ~Job() override { Connection::cancel(m_request); }

    void start() {
        Query query;
        imgbroker_error error;
        query.options.format = IMGBROKER_BGRA8;
        query.options.width = uint32_t(qBound(0, m_size.width(), 65535));
        query.options.height = uint32_t(qBound(0, m_size.height(), 65535));
        Connection *connection = Connection::shared();
        if (connection == nullptr) {
            Q_EMIT finished({}, QStringLiteral("the application ends"));
        } else if (!query.setSource(sourceOf(m_id), {}, &error)) {
            Q_EMIT finished({}, QString::fromUtf8(error.message));
        } else if (const ImagePointer image = connection->kept(query)) {
            Q_EMIT finished(imageOf(image), {});
        } else {
            m_request = connection->send(query, [this](imgbroker_reply &reply) { take(reply); }, &error);
            if (m_request == nullptr) Q_EMIT finished({}, QString::fromUtf8(error.message));
        }
    }

    void cancel() {
        if (m_request == nullptr) return;
        Connection::cancel(std::exchange(m_request, nullptr));
        Q_EMIT finished({}, QStringLiteral("the request was cancelled"));
    }

Q_SIGNALS:
    void finished(const QImage &image, const QString &error);

private:
    void take(imgbroker_reply &reply) {
        m_request = nullptr;
        if (reply.type == IMGBROKER_REPLY_IMAGE) {
            Q_EMIT finished(imageOf(pointerTo(std::exchange(reply.image, nullptr))), {});
        } else {
            Q_EMIT finished({}, QString::fromUtf8(reply.error.message));
        }
    }

    const QString m_id;
    const QSize m_size;
    Request *m_request = nullptr;
};

/// The response to an Image. It lives in the thread that loads images for the engine.
class Response : public QQuickImageResponse {
public:
    Response(const QString &id, const QSize &size) : m_job(new Job(id, size)) {
        connect(m_job, &Job::finished, this, [this](const QImage &image, const QString &error) {
            m_image = image;
            m_error = error;
            Q_EMIT finished();
        });
        QMetaObject::invokeMethod(m_job, [job = m_job] { job->start(); });
    }

    // The job ends in its own thread, after all that was queued for it.
    ~Response() override { m_job->deleteLater(); }

    QQuickTextureFactory *textureFactory() const override {
        return QQuickTextureFactory::textureFactoryForImage(m_image);
    }

    QString errorString() const override { return m_error; }

    void cancel() override {
        QMetaObject::invokeMethod(m_job, [job = m_job] { job->cancel(); });
    }

private:
    Job *m_job;
    QImage m_image;
    QString m_error;
};

} // namespace

QQuickImageResponse *ImageProvider::requestImageResponse(const QString &id, const QSize &requestedSize) {
    return new Response(id, requestedSize);
}

#include "imageprovider.moc"
