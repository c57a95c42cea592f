package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/cli"
)

// addResetPassword adds the way in for a user whose password was lost to the commands
// that manage users over the API.
func addResetPassword(root *cobra.Command, load configLoader, environ []string, stdin io.Reader) error {
	parent, _, err := root.Find([]string{"user"})
	if err != nil {
		return err
	}
	var file string
	var generate, unblock bool
	reset := &cobra.Command{Use: "reset-password EMAIL", Short: "Replaces the password of a user, whose sessions end; the service must be stopped", Args: cobra.ExactArgs(1),
		Long: "Replaces the password of a user in the data directory of this machine, without the old one, and ends the\nsessions of the user. The service must be stopped. The new password is asked for twice at the terminal.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			password := ""
			if !generate {
				if password, err = clientEnv(environ, stdin).NewPassword(cmd.ErrOrStderr(), file); err != nil {
					return err
				}
			}
			stored, err := appliance.ResetPassword(cmd.Context(), c, args[0], password, unblock)
			if errors.Is(err, appliance.ErrNoUser) {
				return cli.WithCode(cli.CodeNotFound, err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "the password was replaced, and the sessions of the user have ended; start the service now")
			if generate {
				fmt.Fprintln(cmd.OutOrStdout(), stored)
			}
			return nil
		}}
	reset.Flags().StringVar(&file, "password-file", "", "`file` with the new password; - is standard input")
	reset.Flags().BoolVar(&generate, "generate", false, "generate the new password, and print it once")
	reset.Flags().BoolVar(&unblock, "unblock", false, "also let a user log in again whose log-in was blocked")
	reset.MarkFlagsMutuallyExclusive("password-file", "generate")
	addLocal(parent, reset)
	return nil
}
