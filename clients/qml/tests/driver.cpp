// driver FILE: shows a QML file, and evaluates JavaScript in the scope of its root object: an expression a line from standard input, its
// value as a line of JSON to standard output. Ends with the input.

#include <QCoreApplication>
#include <QGuiApplication>
#include <QQmlApplicationEngine>
#include <QQmlContext>
#include <QQmlExpression>
#include <QSocketNotifier>

#include <cstdio>
#include <unistd.h>

int main(int count, char **arguments) {
    QGuiApplication application(count, arguments);
    QQmlApplicationEngine engine(QUrl::fromLocalFile(application.arguments().value(1)));
    if (engine.rootObjects().isEmpty()) return EXIT_FAILURE;
    QObject *root = engine.rootObjects().constFirst();
    QByteArray input;
    QSocketNotifier notifier(STDIN_FILENO, QSocketNotifier::Read);
    QObject::connect(&notifier, &QSocketNotifier::activated, &application, [&] {
        char buffer[65536];
        const ssize_t length = read(STDIN_FILENO, buffer, sizeof buffer);
        if (length <= 0) {
            notifier.setEnabled(false);
            QCoreApplication::quit();
            return;
        }
        input.append(buffer, length);
        for (qsizetype end; (end = input.indexOf('\n')) >= 0; input.remove(0, end + 1)) {
            const QString text = QStringLiteral("JSON.stringify(") + QString::fromUtf8(input.left(end)) + QLatin1Char(')');
            QQmlExpression expression(qmlContext(root), root, text);
            const QString value = expression.evaluate().toString();
            if (expression.hasError()) qWarning("%s", qPrintable(expression.error().toString()));
            std::puts(value.isEmpty() ? "null" : qPrintable(value));
            std::fflush(stdout);
        }
    });
    return application.exec();
}
