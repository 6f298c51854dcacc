# imgbroker. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

PREFIX ?= /usr/local
DESTDIR ?=
IMAGES ?=
OUTPUT ?= demo-output
BENCH ?= all
# Where `make build` puts the programs.
BUILT ?= .build/release
# Where zsh finds completions: Debian's zsh reads those of packages elsewhere.
ZSH_FUNCTIONS ?= $(PREFIX)/share/zsh/site-functions

# The package manager leaves empty directories where temporary files are.
swift := TMPDIR="$(shell mkdir -p .build/tmp && cd .build/tmp && pwd)" swift
release := $(swift) build -c release
# Without the compiler's index, which is for editors.
debug := $(swift) build --disable-index-store
benchmarks := IMGBROKER_WITH=benchmarks $(release)
simulator := IMGBROKER_WITH=simulator $(release) --scratch-path .build/simulator -Xswiftc -enable-testing
release_directory := $(CURDIR)/.build/release

.PHONY: help
help: ## This list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: bootstrap
bootstrap: ## Install missing packages for the build (apt, with sudo when not root)
	@scripts/bootstrap.sh

# With IMGBROKER_BUILT=1, programs and tests are taken as they are, as continuous integration does.
ifneq ($(IMGBROKER_BUILT),1)
.PHONY: build
build: bootstrap ## Release build of everything
	$(release)

.PHONY: build-tests
build-tests: ## Debug build of everything, with the tests; warnings are errors
	@scripts/bootstrap.sh --for-tests
	IMGBROKER_STRICT=1 $(debug) --build-tests

.PHONY: build-benchmarks
build-benchmarks: ## Release build of everything, with the benchmarks
	@scripts/bootstrap.sh --for-benchmarks
	$(benchmarks)

.PHONY: build-addresses
build-addresses: # With the address sanitizer
	@scripts/bootstrap.sh --for-tests
	$(for_addresses) $(debug) --build-tests $(with_addresses)

.PHONY: build-threads
build-threads: # With the thread sanitizer
	@scripts/bootstrap.sh --for-tests
	$(for_threads) $(debug) --build-tests $(with_threads)
else
build build-tests build-benchmarks build-addresses build-threads:
endif

.PHONY: demo
demo: build ## A broker, an origin, six clients, a restart; IMAGES=DIR shows a folder's images, OUTPUT=DIR takes the result
	@"$(release_directory)/imgdemo" --output "$(OUTPUT)" $(if $(IMAGES),--images "$(IMAGES)")

.PHONY: test
test: ## Lint, a debug build and the tests of the package that need no idle machine; warnings are errors
	@scripts/bootstrap.sh --for-tests
	@IMGBROKER_STRICT=1 scripts/groups.py Tests/groups

.PHONY: test-timing
test-timing: build-tests ## Tests that judge durations or processor time, or act on the whole machine; beside other load they may fail
	scripts/run-tests.sh --alone

.PHONY: check
check: ## Lint, build and test what has changed since the last commit; TESTS=NAME selects tests, SINCE=COMMIT an older state
	@scripts/bootstrap.sh --for-tests
	@IMGBROKER_STRICT=1 scripts/check.py --since "$(or $(SINCE),HEAD)" $(TESTS)

.PHONY: bench
bench: build-benchmarks ## The benchmarks, into the pages of docs/performance; BENCH="hit decode" runs some of them
	@scripts/benchmark-peers.sh
	$(simulator) --product cachesim
	"$(release_directory)/imgbench" $(BENCH) --write docs

.PHONY: bench-smoke
bench-smoke: build-benchmarks build-tests ## Run all benchmarks briefly, in two minutes, to check that they work; the figures mean nothing
	@scripts/benchmark-peers.sh
	# The core is optimised also in the build of the tests.
	IMGBROKER_STRICT=1 IMGBROKER_WITH=simulator $(debug) --product cachesim
	timeout --foreground 15m "$(release_directory)/imgbench" all --smoke --index .build/debug/cachesim

.PHONY: simulate
simulate: bootstrap ## Simulate eviction policies over generated traces; CHART=FILE writes a chart instead of the tables
	$(simulator) --product cachesim
	.build/simulator/release/cachesim $(if $(CHART),chart "$(CHART)")

.PHONY: simulate-fleet
simulate-fleet: build-benchmarks ## Simulate fleets of 3 to 10,000 brokers with a shared tier
	"$(release_directory)/fleetsim"

with_addresses := --sanitize address --scratch-path .build/addresses
with_threads := --sanitize thread --scratch-path .build/threads
# Only what they test is built. The core has next to no unsafe code.
for_addresses := IMGBROKER_TEST_TARGETS="FuzzTests HTTPCachingTests HTTPValuesTests IPCProtocolTests JSONCodingTests \
	WorkerProtocolTests ImageDecodingTests"
for_threads := IMGBROKER_TEST_TARGETS="IntegrationTests:Support,Commands/ClientTests.swift,Commands/ClientAsyncTests.swift,$\
	Requests/CoalescingTests.swift,Requests/CancelTests.swift SharedCacheTests imgfetchTests ImageDecodingTests"
# Confined processes do not work with a sanitizer, so these tests start the programs of the ordinary build.
# The link's target, because each build replaces the link.
with_programs := folder=$$(realpath -e .build/debug) && IMGBROKER_TEST_PRODUCTS="$$folder"

.PHONY: test-sanitized
test-sanitized: test-addresses test-threads ## Tests that work with the address and the thread sanitizer

.PHONY: test-addresses
test-addresses: build-tests build-addresses ## Tests of parsers and codecs, with the address sanitizer
	# Without leak detection, which reports tables of the Swift runtime.
	$(with_programs) ASAN_OPTIONS=detect_leaks=0 BUILD=.build/addresses scripts/run-tests.sh \
		--filter '(JSONCoding|HTTPValues|IPCProtocol|WorkerProtocol)Tests|HTTPCachingTests|FuzzTests|ImageDecodingTests' \
		--skip '\.(FrameTimingTests|BombTests|DamagedFileTests|ForkServerTests|WorkerProcessTests|ScalingMemoryTests)/'

.PHONY: test-nginx
test-nginx: build-tests ## Tests of TLS and HTTP/2 with nginx, which is installed if it is missing
	@scripts/bootstrap.sh --for-nginx
	IMGBROKER_TEST_NGINX=1 scripts/run-tests.sh --filter NginxTests

.PHONY: test-python
test-python: build ## Types and tests of the Python client, with the release build; needs pip and a package index
	@scripts/bootstrap.sh --for-python
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-python.sh

.PHONY: test-torch
test-torch: build ## Tests of the Python client's datasets for PyTorch, with the release build; needs pip and a package index
	@scripts/bootstrap.sh --for-python
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-python.sh --torch

.PHONY: test-c
test-c: build ## Tests of the C client with sanitizers, with the release build
	@scripts/bootstrap.sh --for-c
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-client.sh c

.PHONY: test-gtk
test-gtk: build ## Tests of the widgets for GTK 4 in a virtual display, in C, Python and JavaScript, with the release build
	@scripts/bootstrap.sh --for-gtk
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-client.sh gtk

.PHONY: test-qml
test-qml: build ## Tests of the QML module in a virtual display, with the release build
	@scripts/bootstrap.sh --for-qml
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-client.sh qml

.PHONY: test-thumbnailer
test-thumbnailer: build ## Tests of the thumbnail service on a session bus of its own, with the release build
	@scripts/bootstrap.sh --for-thumbnailer
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-client.sh thumbnailer

.PHONY: test-deb
test-deb: build ## Test of the Debian packages in a clean root, with the release build; needs root and apt's mirror
	@scripts/bootstrap.sh --for-deb
	BUILT="$(release_directory)" scripts/test-deb.sh

.PHONY: test-systemd
test-systemd: build ## Test of the packages' units with systemd, which runs in namespaces: restart, crash, upgrade under load; needs root
	@scripts/bootstrap.sh --for-deb
	BUILT="$(release_directory)" scripts/test-systemd.sh

.PHONY: test-swift-client
test-swift-client: build ## The example of the Swift client, and the conformance tests with it, with the release build
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-swift-client.sh

.PHONY: docs
docs: ## The documentation of the Swift library, and of the widgets for GTK 4 with gi-docgen, in .build/documentation; warnings are errors
	@scripts/docs.sh

.PHONY: test-steps
test-steps: build ## Steps against Pillow, libvips and headless Chromium, with the release build; needs pip and a package index
	@scripts/bootstrap.sh --for-steps
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-steps.sh

.PHONY: test-damaged
test-damaged: build ## Damaged images against headless Chromium; OUTPUT=FILE takes the sheet, IMAGES=DIR adds its corrupt files
	@scripts/bootstrap.sh --for-steps
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" IMAGES="$(IMAGES)" \
		OUTPUT="$(if $(filter demo-output,$(OUTPUT)),.build/damaged/sheet.png,$(OUTPUT))" scripts/test-damaged.sh

.PHONY: test-fleet
test-fleet: build build-tests ## How often brokers with a shared tier ask the origin: many images, a killed broker, a partition; with the release build
	IMGBROKER_TEST_FLEET=1 IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/run-tests.sh --filter FleetTimingTests

.PHONY: test-families
test-families: build ## AVIF, HEIC, JPEG XL, JPEG 2000, SVG, TIFF, BMP, icons, PNM, QOI and TGA against other decoders; OUTPUT=FILE takes the sheet; needs pip and a package index
	@scripts/bootstrap.sh --for-families
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" \
		OUTPUT="$(if $(filter demo-output,$(OUTPUT)),.build/families/sheet.png,$(OUTPUT))" scripts/test-families.sh

.PHONY: test-exporter
test-exporter: build ## The exporter's metrics and alerts with promtool, its dashboard in headless Chromium, agreement of all figures, with the release build
	@scripts/bootstrap.sh --for-exporter
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-exporter.sh

.PHONY: test-top
test-top: build ## The live view (ctl top) in a terminal of tmux, with the release build
	@scripts/bootstrap.sh --for-top
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" scripts/test-top.sh

.PHONY: test-threads
test-threads: build-tests build-threads ## Tests of clients, downloads and codecs, with the thread sanitizer
	$(with_programs) BUILD=.build/threads scripts/run-tests.sh \
		--filter 'SharedCacheTests|imgfetchTests|IntegrationTests\.(Client|Coalescing|Cancel)'
	# A separate run, because the testing library misses the end of exit tests while another test has an exited child
	# that it has not waited for.
	$(with_programs) BUILD=.build/threads scripts/run-tests.sh \
		--filter 'ImageDecodingTests\.(JPEG|PNG|WebP|AVIF|Animation|Color|Orientation|Placeholder)'

.PHONY: test-hostile
test-hostile: build build-tests ## Forty hostile connections of one user for SECONDS=n (120), while another user loads images and upgrades go on; needs root
	IMGBROKER_TEST_PRODUCTS="$(release_directory)" IMGBROKER_HOSTILE_SECONDS="$(or $(SECONDS),120)" \
		scripts/run-tests.sh --filter HostileUserTests

.PHONY: fuzz
fuzz: ## Fuzz everything that parses untrusted bytes, SECONDS=n (60) each; TARGETS="png urls" are some of the targets
	@SECONDS_EACH="$(or $(SECONDS),60)" scripts/fuzz.sh $(TARGETS)

.PHONY: lint
lint: ## Check formatting, comments and pages
	@scripts/lint.sh

.PHONY: format
format: ## Format the sources in place
	@scripts/lint.sh --fix

families := avif bmp heif jp2 jxl svg tiff
manual_pages := imgbroker.8 imgbroker.conf.5 imgbroker-get.1 imgbroker-info.1 imgbroker-store.1 imgbroker-ctl.1 imgbroker-exporter.1 imgbroker-http.1

.PHONY: install
install: ## Install what `make build` has built under PREFIX (/usr/local); DESTDIR is honoured
	@for program in imgbroker imgfetch imgworker imgcache imgtier imgexporter imghttp; do \
		[[ -x "$(BUILT)/$$program" ]] || { echo "error: $(BUILT)/$$program is missing: run make build first" >&2; exit 1; }; done
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/libexec/imgbroker"
	# Stripped, because debugging information has the paths of the build.
	install -s -m 755 "$(BUILT)/imgbroker" "$(DESTDIR)$(PREFIX)/bin/imgbroker"
	install -s -m 755 "$(BUILT)/imgfetch" "$(BUILT)/imgworker" "$(BUILT)/imgcache" "$(BUILT)/imgtier" "$(BUILT)/imgexporter" \
		"$(BUILT)/imghttp" \
		"$(DESTDIR)$(PREFIX)/libexec/imgbroker/"
	# The families of codecs that were built.
	@for program in $(families:%=imgworker-%); do \
		if [[ -x "$(BUILT)/$$program" ]]; then install -s -m 755 "$(BUILT)/$$program" "$(DESTDIR)$(PREFIX)/libexec/imgbroker/"; fi; done
	# The runtime of Swift, which the workers share, of the toolchain that built them. The broker contains its own. Swift links each program
	# with parts that it may not use: those are neither loaded nor installed.
	install -d "$(DESTDIR)$(PREFIX)/lib/imgbroker"
	@core=$$(ldd "$(BUILT)/imgworker" | awk '$$1 == "libswiftCore.so" { print $$3 }'); \
	symbols() { nm -D "$$@" | awk '{ print $$NF }' | sort -u; }; \
	for program in "$(DESTDIR)$(PREFIX)/libexec/imgbroker/"*; do \
		for library in $$(patchelf --print-needed "$$program"); do \
			[[ -e "$${core%/*}/$$library" ]] || continue; \
			used=$$(comm -12 <(symbols --undefined-only "$$program") <(symbols --defined-only "$${core%/*}/$$library")); \
			[[ -n "$$used" ]] || patchelf --remove-needed "$$library" "$$program"; done; done; \
	libraries=$$(ldd "$(DESTDIR)$(PREFIX)/libexec/imgbroker/"* | \
		awk -v directory="$${core%/*}/" 'index($$3, directory) == 1 { print $$3 }' | sort -u); \
	install -s -m 644 $$libraries "$(DESTDIR)$(PREFIX)/lib/imgbroker/"
	patchelf --set-rpath '$$ORIGIN/../../lib/imgbroker' "$(DESTDIR)$(PREFIX)/libexec/imgbroker/"*
	@missing=$$(ldd -r "$(DESTDIR)$(PREFIX)/libexec/imgbroker/"* 2>&1 | grep -E 'undefined symbol|not found' | sort -u || true); \
	[[ -z "$$missing" ]] || { echo "error: the installed programs lack $$missing" >&2; exit 1; }
	@units="$(DESTDIR)$(PREFIX)/lib/systemd"; \
	install -d "$$units/system" "$$units/user" "$(DESTDIR)$(PREFIX)/lib/sysusers.d" "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d"; \
	install -m 644 packaging/systemd/imgbroker.socket "$$units/system/"; \
	install -m 644 packaging/systemd/imgbroker-user.socket "$$units/user/imgbroker.socket"; \
	install -m 644 packaging/systemd/imgbroker.sysusers "$(DESTDIR)$(PREFIX)/lib/sysusers.d/imgbroker.conf"; \
	install -m 644 packaging/systemd/imgbroker.tmpfiles "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/imgbroker.conf"; \
	sed 's|@bindir@|$(PREFIX)/bin|' packaging/systemd/imgbroker.service.in >"$$units/system/imgbroker.service"; \
	sed 's|@bindir@|$(PREFIX)/bin|' packaging/systemd/imgbroker-exporter.service.in >"$$units/system/imgbroker-exporter.service"; \
	sed 's|@bindir@|$(PREFIX)/bin|' packaging/systemd/imgbroker-http.service.in >"$$units/system/imgbroker-http.service"; \
	sed 's|@bindir@|$(PREFIX)/bin|' packaging/systemd/imgbroker-user.service.in >"$$units/user/imgbroker.service"
	@data="$(DESTDIR)$(PREFIX)/share"; \
	install -d "$$data/man/man1" "$$data/man/man5" "$$data/man/man8" "$$data/bash-completion/completions" \
		"$(DESTDIR)$(ZSH_FUNCTIONS)" "$$data/fish/vendor_completions.d" "$$data/doc/imgbroker/examples"; \
	for page in $(manual_pages); do "$(BUILT)/imgbroker" --manual "$$page" >"$$data/man/man$${page##*.}/$$page"; done; \
	"$(BUILT)/imgbroker" --completion bash >"$$data/bash-completion/completions/imgbroker"; \
	"$(BUILT)/imgbroker" --completion zsh >"$(DESTDIR)$(ZSH_FUNCTIONS)/_imgbroker"; \
	"$(BUILT)/imgbroker" --completion fish >"$$data/fish/vendor_completions.d/imgbroker.fish"; \
	{ echo "# Settings of imgbroker and their defaults, explained in man imgbroker.conf. After a change:"; \
		echo "# imgbroker --check-config, then systemctl reload imgbroker"; echo; \
		env -i "$(BUILT)/imgbroker" --check-config --config /dev/null | sed -E 's/^[a-z]/# &/; s/ *; default$$//'; } \
		>"$$data/doc/imgbroker/examples/imgbroker.conf"; \
	install -m 644 packaging/freedesktop/imgbroker.thumbnailer "$$data/doc/imgbroker/examples/"; \
	install -d "$$data/imgbroker/monitoring"; \
	install -m 644 packaging/monitoring/imgbroker.{rules.yml,grafana.json} "$$data/imgbroker/monitoring/"

.PHONY: deb
deb: ## Debian packages of what `make build` has built, in .build/deb
	@scripts/bootstrap.sh --for-deb
	@BUILT="$(BUILT)" scripts/package-deb.sh

.PHONY: uninstall
uninstall: ## Remove what `install` put under PREFIX
	rm -f "$(DESTDIR)$(PREFIX)/bin/imgbroker"
	rm -rf "$(DESTDIR)$(PREFIX)/libexec/imgbroker" "$(DESTDIR)$(PREFIX)/lib/imgbroker"
	for scope in system user; do rm -f "$(DESTDIR)$(PREFIX)/lib/systemd/$$scope/imgbroker."{socket,service}; done
	rm -f "$(DESTDIR)$(PREFIX)/lib/systemd/system/imgbroker-"{exporter,http}.service
	rm -f "$(DESTDIR)$(PREFIX)/lib/sysusers.d/imgbroker.conf" "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/imgbroker.conf"
	@data="$(DESTDIR)$(PREFIX)/share"; \
	for page in $(manual_pages); do rm -f "$$data/man/man$${page##*.}/$$page"; done; \
	rm -f "$$data/bash-completion/completions/imgbroker" "$(DESTDIR)$(ZSH_FUNCTIONS)/_imgbroker" \
		"$$data/fish/vendor_completions.d/imgbroker.fish"; \
	rm -rf "$$data/doc/imgbroker" "$$data/imgbroker"

.PHONY: clean
clean: ## Remove what was built
	rm -rf .build demo-output
