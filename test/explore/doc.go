// Package explore tests the page of `berth explore` in headless Chromium. It is a module of its
// own, so that only who asks for it needs a browser: chromium and chromedriver must be on the PATH.
//
// Read explore_test.go first. fleet_test.go makes the fleets that are shown; browser_test.go speaks
// WebDriver to chromedriver. With BERTH_SCREENSHOTS=FOLDER the tests write there the pictures that
// docs/explore.md shows.
package explore
