// Command berth answers which clusters a Placement should go to. Package app holds its commands.
package main

import (
	"os"

	"github.com/berth-dev/berth/cmd/berth/app"
)

func main() {
	os.Exit(app.Run(app.NewCommand(), os.Args[1:]))
}
