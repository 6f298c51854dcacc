// The same as gtk.c in QML, where Image decodes in a thread of the process by QImage. The list is in view.qml beside this file.
//
// usage: PROGRAM QML-FILE FOLDER COUNT MILLISECONDS

#include <QGuiApplication>
#include <QQmlContext>
#include <QQuickItem>
#include <QQuickView>
#include <QSocketNotifier>
#include <QTimer>

#include <cstdio>
#include <unistd.h>

int main(int argc, char **argv) {
    QGuiApplication application(argc, argv);
    if (argc != 5) return 2;
    const int count = QByteArray(argv[3]).toInt();
    QQuickView view;
    view.rootContext()->setContextProperty("folder", QString::fromLocal8Bit(argv[2]));
    view.rootContext()->setContextProperty("rows", count);
    view.setResizeMode(QQuickView::SizeRootObjectToView);
    view.resize(480, 1080);
    view.setSource(QUrl::fromLocalFile(QString::fromLocal8Bit(argv[1])));
    if (view.status() != QQuickView::Ready) return 1;
    QQuickItem *list = view.rootObject();
    const auto isComplete = [list] {
        QVariant result;
        QMetaObject::invokeMethod(list, "isComplete", Q_RETURN_ARG(QVariant, result));
        return result.toBool();
    };
    setlinebuf(stdout);

    QMetaObject::Connection first;
    first = QObject::connect(&view, &QQuickWindow::frameSwapped, &view, [&] {
        if (!isComplete()) return;
        QObject::disconnect(first);
        std::puts("first-screen");
    });
    QTimer timer;
    timer.setTimerType(Qt::PreciseTimer);
    timer.setInterval(QByteArray(argv[4]).toInt());
    QObject::connect(&timer, &QTimer::timeout, &view, [&] {
        isComplete();
        const qreal top = list->property("contentY").toReal(), end = list->property("contentHeight").toReal();
        if (top + list->height() >= end - 1) {
            timer.stop();
            std::printf("scrolled %d\n", list->property("shown").toInt());
        } else {
            list->setProperty("contentY", qMin(top + list->height(), end - list->height()));
        }
    });
    QSocketNotifier input(STDIN_FILENO, QSocketNotifier::Read);
    QObject::connect(&input, &QSocketNotifier::activated, &view, [&] {
        char line[16];
        if (read(STDIN_FILENO, line, sizeof line) <= 0) _exit(0);
        timer.start();
    });
    view.show();
    return application.exec();
}
