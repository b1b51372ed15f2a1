package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// logOptions are the settings of the controller's log. Empty fields are the defaults: info, json.
type logOptions struct{ level, format string }

var logLevels = map[string]zapcore.Level{"": zap.InfoLevel, "debug": zap.DebugLevel, "info": zap.InfoLevel, "error": zap.ErrorLevel}

func addLogFlags(cmd *cobra.Command, o *logOptions) {
	cmd.Flags().StringVar(&o.level, "log-level", "info", "least severe lines of the controller's log: debug, info or error")
	cmd.Flags().StringVar(&o.format, "log-format", "json", "format of the controller's log: json or text")
}

func (o logOptions) check() error {
	if _, ok := logLevels[o.level]; !ok || o.level == "" {
		return usagef("--log-level: %q must be debug, info or error", o.level)
	}
	if o.format != "json" && o.format != "text" {
		return usagef("--log-format: %q must be json or text", o.format)
	}
	return nil
}

// startManager runs the controller until ctx ends. configPath names the file of o.Config.
func startManager(ctx context.Context, cfg *rest.Config, out io.Writer, logs logOptions, configPath string, o controllers.Options) error {
	o.Log = logTo(out, logs)
	o.Version, o.Commit = buildVersion()
	if configPath == "" {
		configPath = "built-in"
	}
	o.Log.Info("Starting berth", "version", o.Version, "commit", o.Commit, "config", configPath, "profiles", profileNames(o.Config), "hub", hubURL(cfg))
	limitGarbage()
	mgr, err := controllers.NewManager(ctx, cfg, o)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the controller: %w", err)
	}
	o.Log.Info("Stopped berth")
	return nil
}

// limitGarbage has the garbage collector run when the heap has grown by a half instead of to twice
// its size, unless GOGC says otherwise. At 1,000 clusters and 1,000 Placements the peak of memory
// is a sixth lower, for some percent more processor time.
func limitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// profileNames returns the sorted names of the configuration's profiles and of the default one.
func profileNames(c *config.PlacementSchedulerConfiguration) []string {
	names := map[string]bool{config.DefaultProfile: true}
	if c != nil {
		for _, profile := range c.Profiles {
			if profile.Name != "" {
				names[profile.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// hubURL returns the URL of the API server without credentials.
func hubURL(cfg *rest.Config) string {
	u, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return "invalid" // The error can contain the URL's password.
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// logTo makes all libraries log structured lines to out.
func logTo(out io.Writer, o logOptions) logr.Logger {
	log := newLog(out, o)
	ctrllog.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	return log
}

// newLog returns controller-runtime's logger without sampling. Its sampling drops 99 of 100 lines
// with the same message after the first hundred in a second, which happens when many Placements
// move.
func newLog(out io.Writer, o logOptions) logr.Logger {
	fields := zap.NewProductionEncoderConfig()
	fields.EncodeTime = zapcore.RFC3339TimeEncoder
	encoder := zapcore.NewJSONEncoder(fields)
	if o.format == "text" {
		encoder = zapcore.NewConsoleEncoder(fields)
	}
	lines := zapcore.NewCore(&ctrlzap.KubeAwareEncoder{Encoder: encoder}, zapcore.Lock(zapcore.AddSync(out)), logLevels[o.level])
	return zapr.NewLogger(zap.New(withoutStopErrors{lines}, zap.AddCaller(), zap.AddStacktrace(zap.ErrorLevel)))
}

// withoutStopErrors drops the errors of a normal stop: what controller-runtime logs when a leader
// has released its lease, and requests that the stop cancels. A lease that is lost without a stop
// ends the manager with another error.
type withoutStopErrors struct{ zapcore.Core }

func (c withoutStopErrors) With(fields []zap.Field) zapcore.Core {
	return withoutStopErrors{c.Core.With(fields)}
}

func (c withoutStopErrors) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c withoutStopErrors) Write(entry zapcore.Entry, fields []zap.Field) error {
	stopped := entry.Level == zap.ErrorLevel && slices.ContainsFunc(fields, func(field zap.Field) bool {
		err, ok := field.Interface.(error)
		return ok && (errors.Is(err, context.Canceled) || err.Error() == "leader election lost" && entry.Message == "error received after stop sequence was engaged")
	})
	if stopped {
		return nil
	}
	return c.Core.Write(entry, fields)
}
