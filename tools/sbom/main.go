package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is an SPDX document.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []pkg          `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// pkg is one Go module.
type pkg struct {
	SPDXID           string      `json:"SPDXID"`
	Name             string      `json:"name"`
	VersionInfo      string      `json:"versionInfo"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	SourceInfo       string      `json:"sourceInfo,omitempty"`
	ExternalRefs     []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func run(w io.Writer, program, version string) error {
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if built.Main.Path == "" {
		return errors.New("the program does not say which modules it was built from")
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	at := time.Now()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		at = time.Unix(seconds, 0)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(describe(built, path.Base(built.Path)+" "+version, version, fmt.Sprintf("urn:sha256:%x", sha256.Sum256(text)), at))
}

// describe lists the main module first, then the standard library and the other modules.
func describe(built *debug.BuildInfo, name, version, namespace string, at time.Time) document {
	const id, root = "SPDXRef-DOCUMENT", "SPDXRef-0"
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: id, Name: name, DocumentNamespace: namespace,
		CreationInfo:  creation{Created: at.UTC().Format(time.RFC3339), Creators: []string{"Tool: berth-sbom"}},
		Packages:      []pkg{module(root, built.Main.Path, version, "")},
		Relationships: []relationship{{id, "DESCRIBES", root}},
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(built.GoVersion, "go"), " ")
	modules := append([]*debug.Module{{Path: "stdlib", Version: goVersion}}, built.Deps...)
	for i, m := range modules {
		m = cmp.Or(m.Replace, m)
		p := module(fmt.Sprintf("SPDXRef-%d", i+1), m.Path, m.Version, m.Sum)
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{root, "DEPENDS_ON", p.SPDXID})
	}
	return d
}

func module(id, name, version, sum string) pkg {
	p := pkg{
		SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: "NOASSERTION",
		ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + version}},
	}
	if sum != "" {
		p.SourceInfo = "go.sum: " + sum
	}
	return p
}
