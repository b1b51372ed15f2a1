// Command plugindocs writes the arguments of each plugin into its page: what the doc comments of
// the type <Name>Args say goes between the lines "<!-- args -->" and "<!-- /args -->" of <Name>.md,
// or "None." where there is no such type. An Args type without a page is an error, and so is a page
// without the two lines, or one that README.md has no link to.
//
// Usage: plugindocs DOCS-DIR PACKAGE-DIR...
package main
