"""Run the CDK entry of the source tree; installed projects run `tritonstack-app` instead."""

from stacks.app import main

if __name__ == "__main__":
    main()
