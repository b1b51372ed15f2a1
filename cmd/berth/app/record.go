package app

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/pkg/recording"
)

// recordOptions are the flags of the recording.
type recordOptions struct {
	dir     string
	maxSize string
	maxAge  time.Duration
	// size is the value of maxSize in bytes.
	size int64
}

// noRecording is the value of --record that switches the recording of berth up off.
const noRecording = "none"

func (o *recordOptions) addFlags(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "record", "", usage)
	flags.StringVar(&o.maxSize, "record-max-size", "1Gi", "size of the recording on disk, at least 16Mi; then what uses the most loses its oldest part")
	flags.DurationVar(&o.maxAge, "record-max-age", recording.DefaultMaxAge, "age of the oldest part of the recording, at least 1h")
	complete(cmd, "record-max-size", cobra.NoFileCompletions)
}

func (o *recordOptions) check() error {
	size, err := resource.ParseQuantity(o.maxSize)
	if err != nil || size.Value() < recording.MinSize {
		return usagef("--record-max-size: %q is not a size of at least 16Mi, such as 1Gi", o.maxSize)
	}
	if o.maxAge < time.Hour {
		return usagef("--record-max-age: %s is less than 1h", o.maxAge)
	}
	o.size = size.Value()
	return nil
}

func (o *recordOptions) options() recording.Options {
	return recording.Options{Dir: o.dir, MaxSize: o.size, MaxAge: o.maxAge}
}

// in returns the options for a data directory, where recording is the default.
func (o *recordOptions) in(dataDir string) recording.Options {
	options := o.options()
	if options.Dir = cmp.Or(o.dir, filepath.Join(dataDir, "recording")); o.dir == noRecording {
		options.Dir = ""
	}
	return options
}
