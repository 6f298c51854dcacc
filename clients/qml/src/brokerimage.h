#ifndef IMGBROKER_QML_BROKERIMAGE_H
#define IMGBROKER_QML_BROKERIMAGE_H

#include <QBasicTimer>
#include <QPointer>
#include <QQuickItem>
#include <QUrl>

#include "connection.h"

/// Shows an image of imgbroker, as QML's Image does one that the process loads by itself.
///
/// The image is requested in the item's size, in pixels of the screen, when the item is first shown, and is drawn from the memory that all
/// processes share. A new source cancels the request and clears the picture at once.
class BrokerImage : public QQuickItem {
    Q_OBJECT
    QML_ELEMENT

    // clients/qml/README.md describes the properties.
    Q_PROPERTY(QString source READ source WRITE setSource NOTIFY sourceChanged FINAL)
    Q_PROPERTY(QSize sourceSize MEMBER m_sourceSize NOTIFY sourceSizeChanged FINAL)
    Q_PROPERTY(FillMode fillMode READ fillMode WRITE setFillMode NOTIFY fillModeChanged FINAL)
    Q_PROPERTY(QRectF crop MEMBER m_crop NOTIFY cropChanged FINAL)
    Q_PROPERTY(QString steps MEMBER m_steps NOTIFY stepsChanged FINAL)
    Q_PROPERTY(QString preset MEMBER m_preset NOTIFY presetChanged FINAL)
    Q_PROPERTY(QUrl placeholder MEMBER m_placeholder NOTIFY placeholderChanged FINAL)
    Q_PROPERTY(QString thumbHash MEMBER m_thumbHash NOTIFY thumbHashChanged FINAL)
    Q_PROPERTY(QUrl errorSource MEMBER m_errorSource NOTIFY errorSourceChanged FINAL)
    Q_PROPERTY(bool progressive MEMBER m_progressive NOTIFY progressiveChanged FINAL)
    Q_PROPERTY(bool refresh MEMBER m_refresh NOTIFY refreshChanged FINAL)
    Q_PROPERTY(bool retryFailed MEMBER m_retryFailed NOTIFY retryFailedChanged FINAL)
    Q_PROPERTY(Priority priority READ priority WRITE setPriority NOTIFY priorityChanged FINAL)
    Q_PROPERTY(bool playing READ isPlaying WRITE setPlaying NOTIFY playingChanged FINAL)

    Q_PROPERTY(Status status READ status NOTIFY statusChanged FINAL)
    Q_PROPERTY(qreal progress READ progress NOTIFY progressChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString errorCode READ errorCode NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString imageThumbHash READ imageThumbHash NOTIFY imageChanged FINAL)
    Q_PROPERTY(int sourceWidth READ sourceWidth NOTIFY imageChanged FINAL)
    Q_PROPERTY(int sourceHeight READ sourceHeight NOTIFY imageChanged FINAL)
    Q_PROPERTY(int frameCount READ frameCount NOTIFY imageChanged FINAL)
    Q_PROPERTY(int currentFrame READ currentFrame NOTIFY currentFrameChanged FINAL)
    Q_PROPERTY(qreal paintedWidth READ paintedWidth NOTIFY paintedGeometryChanged FINAL)
    Q_PROPERTY(qreal paintedHeight READ paintedHeight NOTIFY paintedGeometryChanged FINAL)

public:
    /// The values have the meaning and the numbers of Image's.
    enum FillMode { Stretch = 0, PreserveAspectFit = 1, PreserveAspectCrop = 2, Pad = 6 };
    Q_ENUM(FillMode)
    enum Status { Null, Ready, Loading, Error };
    Q_ENUM(Status)
    enum Priority { Low, Normal, High };
    Q_ENUM(Priority)

    explicit BrokerImage(QQuickItem *parent = nullptr);
    ~BrokerImage() override;

    QString source() const { return m_source; }
    void setSource(const QString &source);
    FillMode fillMode() const { return m_fillMode; }
    void setFillMode(FillMode mode);
    Priority priority() const { return m_priority; }
    void setPriority(Priority priority);
    bool isPlaying() const { return m_playing; }
    void setPlaying(bool playing);

    Status status() const { return m_status; }
    qreal progress() const { return m_progress; }
    QString errorString() const { return m_errorString; }
    QString errorCode() const { return m_errorCode; }
    QString imageThumbHash() const { return m_imageThumbHash; }
    int sourceWidth() const { return m_original.width(); }
    int sourceHeight() const { return m_original.height(); }
    int frameCount() const { return m_frameCount; }
    int currentFrame() const { return m_frame; }
    qreal paintedWidth() const { return m_target.width(); }
    qreal paintedHeight() const { return m_target.height(); }

    /// Requests the image again after a failure, also if the URL failed recently. Does nothing while it is loaded or shown.
    Q_INVOKABLE void retry();

Q_SIGNALS:
    void sourceChanged();
    void sourceSizeChanged();
    void fillModeChanged();
    void cropChanged();
    void stepsChanged();
    void presetChanged();
    void placeholderChanged();
    void thumbHashChanged();
    void errorSourceChanged();
    void progressiveChanged();
    void refreshChanged();
    void retryFailedChanged();
    void priorityChanged();
    void playingChanged();
    void statusChanged();
    void progressChanged();
    void errorChanged();
    void imageChanged();
    void currentFrameChanged();
    void paintedGeometryChanged();

protected:
    void componentComplete() override;
    void geometryChange(const QRectF &newGeometry, const QRectF &oldGeometry) override;
    void itemChange(ItemChange change, const ItemChangeData &data) override;
    void timerEvent(QTimerEvent *event) override;
    void updatePolish() override;
    QSGNode *updatePaintNode(QSGNode *old, UpdatePaintNodeData *data) override;

private Q_SLOTS:
    void pooled();
    void reused();

private:
    template <typename Value> bool assign(Value &member, const Value &value, void (BrokerImage::*changed)());

    // The request.
    qreal pixelRatio() const;
    QSize box() const;
    bool needsAnother(const QSize &box) const;
    imgbroker_fit fit() const;
    bool describe(Query &query, const QSize &box, imgbroker_error *error) const;
    void schedule();
    void reload();
    void load();
    void cancel();
    void drop();
    void take(imgbroker_reply &reply);
    void show(const ImagePointer &image, Status status);
    void fail(const imgbroker_error &error);
    void retryLater(bool isPart);
    void loadLocalImages();
    void sizeChanged();

    // The state.
    void setStatus(Status status);
    void setProgress(qreal progress);
    void setError(const QString &code, const QString &message);
    void updateGeometry();
    const QImage &picture() const;

    // Visibility.
    bool isShown() const;
    bool isInView() const;
    imgbroker_priority ownPriority() const;
    void updatePriority();
    void updateShown();
    void observeView();

    // Animations.
    void play();
    void requestPart(int first);
    void takePart(imgbroker_reply &reply, int first, int count);
    void failPart(const imgbroker_error &error);
    void beginPart(int frame);
    void showFrame();
    void advance();
    qint64 delay() const;
    void endAnimation();

    QString m_source;
    QSize m_sourceSize;
    FillMode m_fillMode = Stretch;
    QRectF m_crop;
    QString m_steps, m_preset, m_thumbHash;
    QUrl m_placeholder, m_errorSource;
    Priority m_priority = Normal;
    bool m_progressive = false, m_refresh = false, m_retryFailed = false, m_playing = true;

    Status m_status = Null;
    qreal m_progress = 0;
    QString m_errorString, m_errorCode, m_imageThumbHash;
    QSize m_original = QSize(0, 0);
    int m_frameCount = 0, m_frame = 0;
    /// Where the picture is drawn, in the item's coordinates, and the part of it that is drawn, in its pixels.
    QRectF m_target, m_drawn;

    bool m_isComplete = false, m_isPooled = false, m_isObserving = false, m_wasShown = false;
    /// A request is to be sent with the next frame.
    bool m_isScheduled = false;
    /// The next request is sent although the URL failed recently, because of `retry`.
    bool m_isRetry = false;
    /// Counts the sources.
    int m_generation = 0;
    /// The image is a vector image, which has no size of its own.
    bool m_isVector = false;
    /// The image, over the broker's pages, and the local images that replace it.
    QImage m_image, m_placeholderImage, m_errorImage;
    /// The cache key of the image in the node's texture. Used while the GUI thread is blocked.
    qint64 m_textureKey = 0;
    /// The box and the fit of the last request.
    QSize m_box;
    imgbroker_fit m_fit = IMGBROKER_INSIDE;
    Request *m_request = nullptr;
    imgbroker_priority m_sentPriority = IMGBROKER_PRIORITY_DEFAULT;
    /// The delay before the next automatic retry in milliseconds, and whether it is for a part of an animation.
    int m_retryDelay = 500;
    bool m_retriesPart = false;

    /// The parts of an animation: the one that plays, from the frame `m_partFirst` on, and the one after it.
    ImagePointer m_part, m_nextPart;
    int m_partFirst = 0, m_nextFirst = 0;
    Request *m_partRequest = nullptr;
    /// When the frame that is shown ends, in milliseconds of the monotonic clock.
    qint64 m_frameEnds = 0;
    qint64 m_loops = 0;
    /// It has been played as often as it says, or cannot be continued.
    bool m_isFinished = false;
    /// The present frame has ended, and the part with the next one is in flight.
    bool m_isWaiting = false;

    QBasicTimer m_settleTimer, m_hideTimer, m_retryTimer, m_viewTimer, m_frameTimer;
    QMetaObject::Connection m_visibilityConnection;
};

#endif
