// Command plugindocs writes the arguments of each plugin into the plugin's page. It takes them from
// the doc comments of the type <Name>Args. The text goes between the lines "<!-- args -->" and
// "<!-- /args -->" of <Name>.md. These are errors: an Args type without a page, a page without the
// two lines, and a page of a plugin without arguments, which README.md describes.
//
// Usage: plugindocs DOCS-DIR PACKAGE-DIR...
package main
