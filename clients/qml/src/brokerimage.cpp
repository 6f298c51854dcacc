#include "brokerimage.h"

#include <QCache>
#include <QDeadlineTimer>
#include <QElapsedTimer>
#include <QGuiApplication>
#include <QQmlContext>
#include <QQmlFile>
#include <QQuickWindow>
#include <QSGImageNode>
#include <QtMath>

#include <algorithm>

namespace {

/// The time for which the size of an item must not change before its image is requested in the new size.
constexpr int settleTime = 150;
/// The time after which an item that is not shown releases its image.
constexpr int hideTime = 3000;
/// How often the priority of a request follows the item into the view or out of it.
constexpr int viewTime = 100;
constexpr int firstRetryDelay = 500, lastRetryDelay = 30000;
/// How often an animation out of view looks whether it is in view again.
constexpr int pauseTime = 250;
/// The least time for which a frame is shown, and the delay after which an animation does not catch up, in milliseconds.
constexpr qint64 shortestFrame = 10, longestDelay = 1000;
constexpr qint64 partBytes = 8 << 20;
constexpr int largestPart = 10000, largestSide = 65535;

qint64 now() {
    static const QElapsedTimer clock = [] {
        QElapsedTimer timer;
        timer.start();
        return timer;
    }();
    return clock.elapsed();
}

/// Loads a local image, of which all delegates of a list usually have the same.
QImage loadLocal(const QUrl &url, const QQmlContext *context) {
    static QCache<QUrl, QImage> cache(16);
    if (url.isEmpty()) return {};
    const QUrl resolved = context != nullptr ? context->resolvedUrl(url) : url;
    if (const QImage *image = cache.object(resolved)) return *image;
    const QImage image(QQmlFile::urlToLocalFileOrQrc(resolved));
    cache.insert(resolved, new QImage(image));
    return image;
}

QImage decodeThumbHash(const QString &hash) {
    uint8_t pixels[IMGBROKER_THUMB_HASH_BYTES];
    uint32_t width = 0, height = 0;
    if (hash.isEmpty() || !imgbroker_decode_thumb_hash(hash.toUtf8().constData(), pixels, &width, &height)) return {};
    return QImage(pixels, int(width), int(height), int(width) * 4, QImage::Format_ARGB32_Premultiplied).copy();
}

/// The broker is missing, was restarted or hangs: the same request succeeds when it is back.
bool isOfConnection(imgbroker_code code) {
    return code == IMGBROKER_ERROR_NO_BROKER || code == IMGBROKER_ERROR_CONNECTION_LOST
        || code == IMGBROKER_ERROR_NOT_ANSWERING;
}

/// Returns the scale at which the broker makes an image of a size for a side of the box; 0: this side follows from the other.
qreal scaleOf(int side, int original) {
    return original > 0 ? qreal(side) / original : 0;
}

/// Lets a hidden window take over the changes of its items, of which it draws none.
///
/// The textures of the software renderer refer to images. Those of other renderers are copies, and the images are released anyway.
void synchronize(QQuickWindow *window) {
    static constexpr char mark[] = "_imgbroker_synchronizes";
    if (window == nullptr || window->isVisible() || window->property(mark).toBool()
        || window->rendererInterface()->graphicsApi() != QSGRendererInterface::Software) {
        return;
    }
    // All items of a window are hidden at the same time.
    window->setProperty(mark, true);
    QMetaObject::invokeMethod(window, [window] {
        window->setProperty(mark, {});
        if (!window->isVisible()) window->grabWindow();
    }, Qt::QueuedConnection);
}

} // namespace

BrokerImage::BrokerImage(QQuickItem *parent) : QQuickItem(parent) {
    setFlag(ItemHasContents);
    for (const auto changed : {&BrokerImage::sourceSizeChanged, &BrokerImage::cropChanged, &BrokerImage::stepsChanged,
             &BrokerImage::presetChanged}) {
        connect(this, changed, this, &BrokerImage::reload);
    }
    for (const auto changed :
        {&BrokerImage::placeholderChanged, &BrokerImage::thumbHashChanged, &BrokerImage::errorSourceChanged}) {
        connect(this, changed, this, &BrokerImage::loadLocalImages);
    }
}

BrokerImage::~BrokerImage() {
    cancel();
    Connection::cancel(m_partRequest);
}

// Properties

template <typename Value>
bool BrokerImage::assign(Value &member, const Value &value, void (BrokerImage::*changed)()) {
    if (member == value) return false;
    member = value;
    Q_EMIT(this->*changed)();
    return true;
}

void BrokerImage::setSource(const QString &source) {
    if (source == m_source) return;
    cancel();
    endAnimation();
    m_retryTimer.stop();
    m_settleTimer.stop();
    m_source = source;
    m_generation++;
    m_image = {};
    m_original = QSize(0, 0);
    m_frameCount = m_frame = 0;
    m_imageThumbHash.clear();
    m_retryDelay = firstRetryDelay;
    m_isRetry = false;
    m_isVector = false;
    Q_EMIT sourceChanged();
    Q_EMIT imageChanged();
    setError({}, {});
    setProgress(0);
    if (m_source.isEmpty()) setImplicitSize(0, 0);
    setStatus(m_source.isEmpty() ? Null : Loading);
    schedule();
}

void BrokerImage::setFillMode(FillMode mode) {
    if (!assign(m_fillMode, mode, &BrokerImage::fillModeChanged)) return;
    updateGeometry();
    if (m_fit != fit() || needsAnother(box())) reload();
}

void BrokerImage::setPriority(Priority priority) {
    if (assign(m_priority, priority, &BrokerImage::priorityChanged)) updatePriority();
}

void BrokerImage::setPlaying(bool playing) {
    if (!assign(m_playing, playing, &BrokerImage::playingChanged)) return;
    if (m_isFinished && playing) {
        m_isFinished = false;
        m_loops = 0;
    }
    play();
}

void BrokerImage::setStatus(Status status) {
    if (status == m_status) return;
    m_status = status;
    updateGeometry();
    Q_EMIT statusChanged();
}

void BrokerImage::setProgress(qreal progress) {
    assign(m_progress, progress, &BrokerImage::progressChanged);
}

void BrokerImage::setError(const QString &code, const QString &message) {
    if (code == m_errorCode && message == m_errorString) return;
    m_errorCode = code;
    m_errorString = message;
    Q_EMIT errorChanged();
}

void BrokerImage::retry() {
    if (m_errorCode.isEmpty()) return;
    m_isRetry = true;
    m_retryDelay = firstRetryDelay;
    setError({}, {});
    // After a failure in another size, the image stays.
    if (m_status == Error) {
        setProgress(0);
        setStatus(Loading);
    }
    schedule();
}

// Requests

qreal BrokerImage::pixelRatio() const {
    return window() != nullptr ? window()->effectiveDevicePixelRatio() : qGuiApp->devicePixelRatio();
}

/// Returns the size to request in pixels of the screen, 0 for a side that follows from the aspect ratio; invalid before the item has one.
QSize BrokerImage::box() const {
    const auto pixels = [ratio = pixelRatio()](qreal length) {
        // A length that is a whole number of pixels but for rounding takes no pixel more.
        return std::clamp(qCeil(length * ratio - 0.01), 0, largestSide);
    };
    if (!m_preset.isEmpty()) return {0, 0};
    if (m_sourceSize.width() > 0 || m_sourceSize.height() > 0) {
        return {pixels(m_sourceSize.width()), pixels(m_sourceSize.height())};
    }
    if (m_fillMode == Pad) return {0, 0};
    if ((widthValid() && width() <= 0) || (heightValid() && height() <= 0)) return {};
    return {widthValid() ? pixels(width()) : 0, heightValid() ? pixels(height()) : 0};
}

imgbroker_fit BrokerImage::fit() const {
    switch (m_fillMode) {
    case Stretch:
        return IMGBROKER_FILL;
    case PreserveAspectCrop:
        return IMGBROKER_COVER;
    default:
        return IMGBROKER_INSIDE;
    }
}

/// Returns whether a box needs other pixels than those of the last request: more of them, but not more than the original has, or another crop.
bool BrokerImage::needsAnother(const QSize &box) const {
    if (!box.isValid() || box == m_box) return false;
    if (m_fit != fit() || !m_box.isValid()) return true;
    const bool hadBoth = m_box.width() > 0 && m_box.height() > 0, hasBoth = box.width() > 0 && box.height() > 0;
    if (m_fit == IMGBROKER_COVER) {
        if (hadBoth != hasBoth) return true;
        // The crop is another one if the height would differ by more than a pixel in the width of the last request.
        if (hasBoth && qAbs(qreal(box.height()) * m_box.width() / box.width() - m_box.height()) > 1) return true;
    }
    const QSize original = m_crop.isEmpty() ? m_original : m_crop.size().toSize();
    if (original.isEmpty()) return box.width() > m_box.width() || box.height() > m_box.height();
    const auto scale = [&](const QSize &box) {
        const qreal across = scaleOf(box.width(), original.width()), down = scaleOf(box.height(), original.height());
        qreal result = box.width() == 0 ? down : box.height() == 0 ? across
            : m_fit == IMGBROKER_INSIDE     ? qMin(across, down)
                                            : qMax(across, down);
        if (box.width() == 0 && box.height() == 0) result = 1;
        return m_isVector ? result : qMin(result, qreal(1));
    };
    const int side = qMax(original.width(), original.height());
    if (m_fit == IMGBROKER_FILL) {
        const auto more = [](int side, int before, int original) { return qMin(side, original) > qMin(before, original); };
        if (hadBoth && hasBoth) {
            return more(box.width(), m_box.width(), original.width())
                || more(box.height(), m_box.height(), original.height());
        }
    }
    return (scale(box) - scale(m_box)) * side > 1;
}

/// Describes the request for the image. Returns false, and an error, if the source is invalid.
bool BrokerImage::describe(Query &query, const QSize &box, imgbroker_error *error) const {
    const QQmlContext *context = qmlContext(this);
    if (!query.setSource(m_source, context != nullptr ? context->baseUrl() : QUrl(), error)) return false;
    imgbroker_options &options = query.options;
    if (m_preset.isEmpty()) {
        options.format = IMGBROKER_BGRA8;
        options.width = uint32_t(box.width());
        options.height = uint32_t(box.height());
        options.fit = fit();
        if (!m_crop.isEmpty()) {
            options.crop = {
                uint32_t(qMax(0, qRound(m_crop.x()))), uint32_t(qMax(0, qRound(m_crop.y()))),
                uint32_t(qMax(1, qRound(m_crop.width()))), uint32_t(qMax(1, qRound(m_crop.height())))};
        }
        query.steps = m_steps.toUtf8();
        if (!query.steps.isEmpty()) options.steps = query.steps.constData();
    } else {
        query.preset = m_preset.toUtf8();
        options.preset = query.preset.constData();
    }
    if (m_refresh && query.isRemote()) {
        options.cache = IMGBROKER_NO_CACHE;
        options.stale_first = true;
    }
    options.retry_failed = m_retryFailed || m_isRetry;
    options.priority = ownPriority();
    options.progress = true;
    options.progressive = m_progressive;
    return true;
}

/// Requests the image with the next frame, when all properties have their values.
void BrokerImage::schedule() {
    m_isScheduled = true;
    if (m_isComplete) polish();
}

/// Requests the image with other options. The picture stays until the new one has been loaded.
void BrokerImage::reload() {
    if (m_status == Error) setStatus(Loading);
    if (m_status != Null) schedule();
}

void BrokerImage::load() {
    const QSize box = this->box();
    if (m_source.isEmpty() || !isShown() || !box.isValid()) return;
    m_isScheduled = false;
    m_retryTimer.stop();
    m_settleTimer.stop();
    cancel();
    m_box = box;
    m_fit = fit();
    Connection *connection = Connection::shared();
    if (connection == nullptr) return;
    Query query;
    imgbroker_error error;
    const bool isValid = describe(query, box, &error);
    m_isRetry = false;
    if (!isValid) {
        fail(error);
        return;
    }
    if (const ImagePointer image = connection->kept(query)) {
        show(image, Ready);
        return;
    }
    m_request = connection->send(query, [this](imgbroker_reply &reply) { take(reply); }, &error);
    if (m_request == nullptr) {
        fail(error);
        return;
    }
    m_sentPriority = query.options.priority;
    updatePriority();
    m_viewTimer.start(viewTime, this);
    // An automatic retry leaves the error until it has succeeded.
    if (m_image.isNull() && m_status != Error) {
        setProgress(0);
        setStatus(Loading);
    }
    // A kept image of a local file is a reply at once.
    if (!query.path.isEmpty()) connection->dispatch();
}

void BrokerImage::cancel() {
    Connection::cancel(std::exchange(m_request, nullptr));
    m_viewTimer.stop();
}

/// Releases the image, and cancels the request for it; it is requested again when the item is shown.
void BrokerImage::drop() {
    if (m_request != nullptr || !m_image.isNull()) m_isScheduled = true;
    cancel();
    endAnimation();
    m_settleTimer.stop();
    m_image = {};
    updateGeometry();
    synchronize(window());
}

void BrokerImage::take(imgbroker_reply &reply) {
    if (reply.final) {
        m_request = nullptr;
        m_viewTimer.stop();
    }
    if (reply.type == IMGBROKER_REPLY_PROGRESS) {
        if (reply.expected != UINT64_MAX && reply.expected > 0) setProgress(qMin(1.0, qreal(reply.received) / qreal(reply.expected)));
    } else if (reply.type == IMGBROKER_REPLY_IMAGE) {
        const ImagePointer image = pointerTo(std::exchange(reply.image, nullptr));
        // Before the final image comes the cached one, which `refresh` requests, or a partial one from the network.
        show(image, reply.final || image->source != IMGBROKER_FROM_NETWORK ? Ready : Loading);
    } else if (reply.type == IMGBROKER_REPLY_ERROR) {
        fail(reply.error);
    }
}

void BrokerImage::show(const ImagePointer &image, Status status) {
    const QImage picture = imageOf(image);
    if (picture.isNull()) {
        imgbroker_error error = {};
        error.code = IMGBROKER_ERROR_UNSUPPORTED_FORMAT;
        qstrncpy(error.message, "the preset makes no pixels", sizeof error.message);
        fail(error);
        return;
    }
    endAnimation();
    m_image = picture;
    m_original = QSize(int(image->original_width), int(image->original_height));
    m_frameCount = int(std::clamp<uint64_t>(image->original_frames, 1, INT_MAX));
    m_isVector = image->content_type != nullptr && qstrncmp(image->content_type, "image/svg", 9) == 0;
    m_imageThumbHash = QString::fromUtf8(image->thumb_hash);
    m_retryDelay = firstRetryDelay;
    updateGeometry();
    // A handler may set another source, of which nothing of this is true.
    const int generation = m_generation;
    Q_EMIT imageChanged();
    if (generation == m_generation) setError({}, {});
    if (generation == m_generation && status == Ready) setProgress(1);
    if (generation == m_generation) setStatus(status);
    play();
}

void BrokerImage::fail(const imgbroker_error &error) {
    if (isOfConnection(error.code)) retryLater(false);
    // An image in another size, or one that could not be validated, stays.
    const bool hasImage = m_status == Ready && !m_image.isNull();
    if (!hasImage) m_image = {};
    const int generation = m_generation;
    setError(QString::fromLatin1(imgbroker_code_name(error.code)), QString::fromUtf8(error.message));
    if (!hasImage && generation == m_generation) setStatus(Error);
    play();
}

/// Requests the image, or the part of its animation, again after a delay that grows; if the item is not shown, when it is.
void BrokerImage::retryLater(bool isPart) {
    // The image comes first: its animation begins again with it.
    m_retriesPart = isPart && !(m_retryTimer.isActive() && !m_retriesPart);
    if (!isShown()) {
        m_isScheduled = true;
        return;
    }
    m_retryTimer.start(m_retryDelay, this);
    m_retryDelay = qMin(2 * m_retryDelay, lastRetryDelay);
}

// Items

void BrokerImage::componentComplete() {
    QQuickItem::componentComplete();
    m_isComplete = true;
    loadLocalImages();
    updateShown();
    polish();
}

void BrokerImage::loadLocalImages() {
    if (!m_isComplete) return;
    const QQmlContext *context = qmlContext(this);
    m_placeholderImage = decodeThumbHash(m_thumbHash);
    if (m_placeholderImage.isNull()) m_placeholderImage = loadLocal(m_placeholder, context);
    m_errorImage = loadLocal(m_errorSource, context);
    updateGeometry();
}

void BrokerImage::geometryChange(const QRectF &newGeometry, const QRectF &oldGeometry) {
    QQuickItem::geometryChange(newGeometry, oldGeometry);
    if (newGeometry.size() != oldGeometry.size()) sizeChanged();
}

void BrokerImage::sizeChanged() {
    updateGeometry();
    if (!m_isComplete) return;
    if (m_isScheduled) {
        polish();
    } else if ((m_request != nullptr || !m_image.isNull()) && needsAnother(box())) {
        m_settleTimer.start(settleTime, this);
    }
}

void BrokerImage::itemChange(ItemChange change, const ItemChangeData &data) {
    QQuickItem::itemChange(change, data);
    switch (change) {
    case ItemSceneChange:
        disconnect(m_visibilityConnection);
        if (data.window != nullptr) {
            m_visibilityConnection =
                connect(data.window, &QWindow::visibilityChanged, this, [this] { updateShown(); });
        }
        updateShown();
        break;
    case ItemVisibleHasChanged:
        updateShown();
        break;
    case ItemDevicePixelRatioHasChanged:
        sizeChanged();
        break;
    default:
        break;
    }
}

bool BrokerImage::isShown() const {
    return m_isComplete && !m_isPooled && isVisible() && window() != nullptr && window()->isVisible()
        && window()->visibility() != QWindow::Minimized;
}

/// Returns whether a part of the item is within its window and within all views and clipping items that contain it.
bool BrokerImage::isInView() const {
    if (!isShown()) return false;
    QRectF visible = mapRectToScene(boundingRect()) & QRectF(QPointF(), window()->size());
    for (const QQuickItem *item = parentItem(); item != nullptr && !visible.isEmpty(); item = item->parentItem()) {
        if (item->clip() || item->inherits("QQuickFlickable")) visible &= item->mapRectToScene(item->boundingRect());
    }
    return !visible.isEmpty();
}

imgbroker_priority BrokerImage::ownPriority() const {
    return m_priority == Low ? IMGBROKER_PRIORITY_LOW
        : m_priority == High ? IMGBROKER_PRIORITY_HIGH
                             : IMGBROKER_PRIORITY_NORMAL;
}

/// Gives the request the priority that the item has at present.
void BrokerImage::updatePriority() {
    const imgbroker_priority priority = isInView() ? ownPriority() : IMGBROKER_PRIORITY_LOW;
    if (m_request == nullptr || priority == m_sentPriority) return;
    if (Connection *connection = Connection::shared()) connection->update(m_request, priority);
    m_sentPriority = priority;
}

void BrokerImage::updateShown() {
    const bool shown = isShown();
    if (shown == m_wasShown) return;
    m_wasShown = shown;
    updatePriority();
    if (shown) {
        m_hideTimer.stop();
        if (m_isScheduled) polish();
        play();
        return;
    }
    m_frameTimer.stop();
    if (m_retryTimer.isActive()) m_isScheduled = true;
    m_retryTimer.stop();
    if (m_isPooled) {
        drop();
    } else {
        m_hideTimer.start(hideTime, this);
    }
}

/// Observes the views that reuse their delegates: a delegate in the pool is hidden, but its `visible` is true.
void BrokerImage::observeView() {
    if (m_isObserving) return;
    m_isObserving = true;
    for (QQuickItem *item = this; item->parentItem() != nullptr; item = item->parentItem()) {
        const QQuickItem *view = item->parentItem()->parentItem();
        if (view == nullptr || !(view->inherits("QQuickItemView") || view->inherits("QQuickTableView"))) continue;
        QQmlAttachedPropertiesFunc function = nullptr;
        for (auto *type = view->metaObject(); type != nullptr && function == nullptr; type = type->superClass()) {
            function = qmlAttachedPropertiesFunction(item, type);
        }
        const QObject *attached = function != nullptr ? qmlAttachedPropertiesObject(item, function, true) : nullptr;
        if (attached == nullptr) continue;
        connect(attached, SIGNAL(pooled()), this, SLOT(pooled()));
        connect(attached, SIGNAL(reused()), this, SLOT(reused()));
    }
}

void BrokerImage::pooled() {
    m_isPooled = true;
    updateShown();
}

void BrokerImage::reused() {
    m_isPooled = false;
    updateShown();
}

void BrokerImage::timerEvent(QTimerEvent *event) {
    const int timer = event->timerId();
    if (timer == m_settleTimer.timerId()) {
        m_settleTimer.stop();
        if (needsAnother(box())) schedule();
    } else if (timer == m_hideTimer.timerId()) {
        m_hideTimer.stop();
        drop();
    } else if (timer == m_retryTimer.timerId()) {
        m_retryTimer.stop();
        if (m_retriesPart) {
            play();
        } else {
            schedule();
        }
    } else if (timer == m_viewTimer.timerId()) {
        updatePriority();
    } else if (timer == m_frameTimer.timerId()) {
        advance();
    } else {
        QQuickItem::timerEvent(event);
    }
}

// Drawing

/// Returns the image to draw: the broker's, or a local one.
const QImage &BrokerImage::picture() const {
    static const QImage none;
    if (!m_image.isNull()) return m_image;
    return m_status == Error ? m_errorImage : m_status == Loading ? m_placeholderImage : none;
}

/// Computes the place of the picture, and the size of an item that has none of its own.
void BrokerImage::updateGeometry() {
    const qreal ratio = pixelRatio();
    const QSizeF pixels = picture().size();
    const bool isOwn = !m_image.isNull();
    // The size of an image that is not scaled: the pixels of an original, like Image's, are device-independent ones.
    const bool isScaled = isOwn && (!m_sourceSize.isEmpty() || m_sourceSize.width() > 0 || m_sourceSize.height() > 0);
    QSizeF natural = isScaled ? pixels / ratio : pixels;
    if (isOwn) {
        QSizeF implicit = natural;
        if (!isScaled && m_steps.isEmpty() && m_preset.isEmpty()) {
            implicit = m_crop.isEmpty() ? QSizeF(m_original) : m_crop.size();
        }
        if (m_fillMode == PreserveAspectFit && !implicit.isEmpty() && widthValid() != heightValid()) {
            if (widthValid()) implicit.setHeight(width() * implicit.height() / implicit.width());
            else implicit.setWidth(height() * implicit.width() / implicit.height());
        }
        setImplicitSize(implicit.width(), implicit.height());
    }

    const QSizeF size(width(), height());
    QRectF target(QPointF(), size), drawn(QPointF(), pixels);
    if (pixels.isEmpty() || size.isEmpty()) {
        target = drawn = QRectF();
    } else if (m_fillMode == PreserveAspectFit) {
        QSizeF scaled = pixels.scaled(size, Qt::KeepAspectRatio);
        // The pixels of an image that was requested in this size are drawn as pixels of the screen.
        if (qAbs(scaled.width() * ratio - pixels.width()) < 1 && qAbs(scaled.height() * ratio - pixels.height()) < 1) {
            scaled = pixels / ratio;
        }
        const auto centre = [ratio](qreal room) { return qRound(room / 2 * ratio) / ratio; };
        target = QRectF(QPointF(centre(size.width() - scaled.width()), centre(size.height() - scaled.height())), scaled);
    } else if (m_fillMode == PreserveAspectCrop) {
        QSizeF part = size.scaled(pixels, Qt::KeepAspectRatio);
        if (qAbs(part.width() - pixels.width()) < 1 && qAbs(part.height() - pixels.height()) < 1) part = pixels;
        drawn = QRectF(QPointF((pixels.width() - part.width()) / 2, (pixels.height() - part.height()) / 2), part);
    } else if (m_fillMode == Pad) {
        const QSizeF part = natural.boundedTo(size);
        const qreal scale = pixels.width() / natural.width();
        target = QRectF(
            QPointF(qRound((size.width() - part.width()) / 2), qRound((size.height() - part.height()) / 2)), part);
        drawn = QRectF(
            QPointF(qRound((natural.width() - part.width()) / 2 * scale), qRound((natural.height() - part.height()) / 2 * scale)),
            part * scale);
    }
    const bool changed = target.size() != m_target.size();
    m_target = target;
    m_drawn = drawn;
    update();
    if (changed) Q_EMIT paintedGeometryChanged();
}

QSGNode *BrokerImage::updatePaintNode(QSGNode *old, UpdatePaintNodeData *) {
    const QImage &image = picture();
    if (image.isNull() || m_target.isEmpty()) {
        delete old;
        return nullptr;
    }
    auto *node = static_cast<QSGImageNode *>(old);
    if (node == nullptr) {
        node = window()->createImageNode();
        node->setOwnsTexture(true);
        m_textureKey = 0;
    }
    if (m_textureKey != image.cacheKey()) {
        node->setTexture(window()->createTextureFromImage(image));
        m_textureKey = image.cacheKey();
    }
    node->setFiltering(smooth() ? QSGTexture::Linear : QSGTexture::Nearest);
    node->setRect(m_target);
    node->setSourceRect(m_drawn);
    return node;
}

void BrokerImage::updatePolish() {
    observeView();
    if (m_isScheduled) load();
}

// Animations

/// Plays the animation if it may play and is not playing.
void BrokerImage::play() {
    const bool may = m_playing && m_frameCount > 1 && !m_isFinished && m_status == Ready && !m_image.isNull()
        && m_request == nullptr && isShown();
    if (!may) {
        m_frameTimer.stop();
    } else if (!m_part || m_isWaiting) {
        requestPart(m_isWaiting ? (m_frame + 1) % m_frameCount : m_frame);
    } else if (!m_frameTimer.isActive()) {
        m_frameEnds = now() + delay();
        m_frameTimer.start(int(delay()), Qt::PreciseTimer, this);
    }
}

/// Returns the time for which the present frame is shown.
qint64 BrokerImage::delay() const {
    return std::clamp<qint64>(qint64(m_part->frames[m_frame - m_partFirst].delay_ms), shortestFrame, INT_MAX);
}

/// Requests the part of the animation that begins with a frame, or the whole animation if it fits into one part.
void BrokerImage::requestPart(int first) {
    Connection *connection = Connection::shared();
    // A preset has its own choice of frames.
    if (m_partRequest != nullptr || connection == nullptr || !m_preset.isEmpty()) return;
    const int fits = int(std::clamp<qint64>(partBytes / qMax<qint64>(1, m_image.sizeInBytes()), 1, largestPart));
    if (fits >= m_frameCount) first = 0;
    const int count = qMin(fits, m_frameCount - first);
    Query query;
    imgbroker_error error;
    bool isSent = describe(query, m_box, &error);
    query.options.first_frame = uint32_t(first);
    query.options.frame_count = uint32_t(count);
    // All parts are of one response, and an original that may not be stored is not loaded for each of them.
    const imgbroker_cache cache = first == 0 ? IMGBROKER_FORCE_CACHE : IMGBROKER_ONLY_IF_CACHED;
    query.options.cache = query.isRemote() ? cache : IMGBROKER_CACHE_DEFAULT;
    query.options.stale_first = query.options.progress = query.options.progressive = false;
    if (isSent) {
        m_partRequest = connection->send(
            query, [this, first, count](imgbroker_reply &reply) { takePart(reply, first, count); }, &error);
        isSent = m_partRequest != nullptr;
    }
    if (!isSent) failPart(error);
}

void BrokerImage::takePart(imgbroker_reply &reply, int first, int count) {
    if (!reply.final) return;
    m_partRequest = nullptr;
    if (reply.type != IMGBROKER_REPLY_IMAGE) {
        failPart(reply.error);
        return;
    }
    const ImagePointer part = pointerTo(std::exchange(reply.image, nullptr));
    if (part->frame_count == 0 || imageOf(part).isNull()) {
        m_isFinished = true;
        return;
    }
    m_retryDelay = firstRetryDelay;
    setError({}, {});
    if (part->frame_count < size_t(count)) {
        // The header states more frames than the file has.
        m_frameCount = first + int(part->frame_count);
        Q_EMIT imageChanged();
    }
    m_nextPart = part;
    m_nextFirst = first;
    if (!m_part) {
        beginPart(qMin(m_frame, m_frameCount - 1));
    } else if (m_isWaiting) {
        m_isWaiting = false;
        m_frameEnds = now();
        advance();
    }
}

/// An animation that cannot be continued shows its last frame.
void BrokerImage::failPart(const imgbroker_error &error) {
    if (isOfConnection(error.code)) {
        retryLater(true);
    } else {
        m_isFinished = true;
    }
    setError(QString::fromLatin1(imgbroker_code_name(error.code)), QString::fromUtf8(error.message));
}

/// Begins to play the part that has been received, with a frame in it.
void BrokerImage::beginPart(int frame) {
    m_part = std::move(m_nextPart);
    m_nextPart = nullptr;
    m_partFirst = m_nextFirst;
    m_frame = frame;
    m_frameEnds = now() + delay();
    showFrame();
}

/// Shows the present frame, and requests the part after the present one.
void BrokerImage::showFrame() {
    m_image = imageOf(m_part, size_t(m_frame - m_partFirst));
    updateGeometry();
    const int end = m_partFirst + int(m_part->frame_count);
    const bool isWhole = m_partFirst == 0 && end >= m_frameCount;
    const bool isLast = end >= m_frameCount && m_part->loops > 0 && m_loops + 1 >= m_part->loops;
    if (!isWhole && !isLast && !m_nextPart) requestPart(end % m_frameCount);
    if (m_playing && isShown() && !m_isFinished && !m_isWaiting) {
        m_frameTimer.start(int(qMax<qint64>(0, m_frameEnds - now())), Qt::PreciseTimer, this);
    }
    Q_EMIT currentFrameChanged();
}

/// Shows the frame that is due: the times of frames follow from each other, so that a late one does not delay the ones after it.
void BrokerImage::advance() {
    m_frameTimer.stop();
    if (!m_part || !m_playing || !isShown()) return;
    const qint64 time = now();
    if (!isInView()) {
        m_frameEnds = time;
        m_frameTimer.start(pauseTime, this);
        return;
    }
    if (time - m_frameEnds > longestDelay) m_frameEnds = time;
    const int before = m_frame;
    while (m_frameEnds <= time) {
        const bool wraps = m_frame + 1 >= m_frameCount;
        if (wraps && m_part->loops > 0 && m_loops + 1 >= m_part->loops) {
            m_isFinished = true;
            break;
        }
        const int next = wraps ? 0 : m_frame + 1;
        if (next < m_partFirst || next >= m_partFirst + int(m_part->frame_count)) {
            if (!m_nextPart) {
                m_isWaiting = true;
                requestPart(next);
                break;
            }
            m_part = std::move(m_nextPart);
            m_nextPart = nullptr;
            m_partFirst = m_nextFirst;
        }
        if (wraps) m_loops++;
        m_frame = next;
        m_frameEnds += delay();
    }
    if (m_frame != before) showFrame();
}

void BrokerImage::endAnimation() {
    Connection::cancel(std::exchange(m_partRequest, nullptr));
    m_frameTimer.stop();
    m_part = m_nextPart = nullptr;
    m_loops = 0;
    m_isFinished = m_isWaiting = false;
    if (std::exchange(m_frame, 0) != 0) Q_EMIT currentFrameChanged();
}
