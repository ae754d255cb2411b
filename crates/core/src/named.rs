//! Enums whose every variant has a name: that of a server's answer, of JSON, or of a table.

/// Declares an enum with a name to each of its variants, in the order in which `ALL` has them: `name`, and `Display`
/// by it.
///
/// ```
/// keyfold_core::named! {
///     /// What to do.
///     pub enum Advice {
///         /// Fold it.
///         Fold = "fold",
///         /// Leave it.
///         Leave = "leave",
///     }
/// }
/// assert_eq!(Advice::ALL.map(Advice::name), ["fold", "leave"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            $vis const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// The name by which it is read and shown.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
