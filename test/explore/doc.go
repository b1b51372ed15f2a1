// Package explore tests the page of `berth explore` in headless Chromium. It is a separate module,
// so that only these tests need a browser: chromium and chromedriver must be on the PATH. `npm ci`
// installs axe-core, which finds breaches of WCAG, and TypeScript, with which `make typecheck`
// checks the page.
//
// Read explore_test.go first. fleet_test.go builds the fleets. browser_test.go sends WebDriver
// commands to chromedriver. axe_test.go runs axe-core. go test's cache does not notice a changed
// browser or program: set BERTH_INPUTS to a digest of them, as make browser does. With
// BERTH_SCREENSHOTS=FOLDER the tests write the pictures of docs/explore.md to FOLDER.
package explore
